// A training set and the set held out from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/data/byte_images.hpp"

namespace ddprun::trainer {

struct TrainAndTest {
  std::unique_ptr<DataSet> train;
  std::unique_ptr<DataSet> test;
  std::vector<std::string> class_names = {};  ///< empty: classes have numbers alone
  std::string vocabulary =
      {};                    ///< of words: one token a line, by their ids; of pieces: their model
  std::string warning = {};  ///< what the user should know of them
};

/// Sets of the images that were read from `folder`, which gives them their name. Requires both to
/// have the same shape and classes. Both are normalised by the training images.
TrainAndTest make_image_sets(const std::filesystem::path& folder, ByteImages train,
                             ByteImages test);

enum class SetPart { train, test };

/// Pixels of masks of one set.
struct MaskPixels {
  std::uint64_t marked = 0;  ///< that belong to a mask
  std::uint64_t all = 0;
};
MaskPixels mask_pixels(const ImageSet& set);

/// Throws DataError where all masks of a set have one value: then there is nothing to learn, or IoU
/// and F1 measure nothing. A pixel belongs to a mask from the value `threshold` on. `remedy` ends
/// the text.
void check_masks(SetPart part, MaskPixels pixels, const std::filesystem::path& folder,
                 int threshold, const std::string& remedy);

/// Name of a set of images in `folder`: "cats 64x64x3".
std::string set_name(const std::filesystem::path& folder, ImageShape shape);

/// The last part of the folder's path, also of "." and of one that ends with a slash.
std::string folder_name(const std::filesystem::path& folder);

/// The labels (0 or more) of a file.
struct FileLabels {
  std::string file;
  std::vector<std::int32_t> labels;
  std::function<std::string(std::size_t sample)> place;  ///< in the file, such as "line 7"
};

/// With more classes than that most of them must occur, where the number is not given.
inline constexpr int kClassesUnasked = 1'000;

/// How many classes both sets have. `head`: outputs of the classifier if they are given. Labels are
/// below it, in both sets; else those of the held-out set are in the range of the training set's,
/// which has two classes or more, and most of those up to its highest label if these are more than
/// kClassesUnasked. Throws DataError that names the file, the first label beyond and
/// its place.
int agree_on_classes(const FileLabels& train, const FileLabels& test, std::optional<int> head);

}  // namespace ddprun::trainer
