#include "trainer/data/train_and_test.hpp"

#include <fmt/format.h>

#include "base/assert.hpp"
#include "trainer/data/image_shape.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {

TrainAndTest make_image_sets(const std::filesystem::path& folder, ByteImages train,
                             ByteImages test) {
  DDPRUN_ASSERT(train.shape == test.shape && train.classes == test.classes,
                "two sets for one network");
  const Normalization normalization = measure_normalization(train);
  const std::string name = set_name(folder, train.shape);
  TrainAndTest sets;
  sets.train = std::make_unique<ByteImageSet>(name, std::move(train), normalization);
  sets.test = std::make_unique<ByteImageSet>(name, std::move(test), normalization);
  return sets;
}

MaskPixels mask_pixels(const DataSet& set) {
  return {.marked = set.mask_pixels(), .all = set.size() * mask_size(set.shape())};
}

void check_masks(SetPart part, MaskPixels pixels, const std::filesystem::path& folder,
                 int threshold, const std::string& remedy) {
  if (pixels.marked != 0 && pixels.marked != pixels.all) return;
  const bool is_train = part == SetPart::train;
  throw DataError(fmt::format(
      "{}: {} pixel of the {} masks has a value of {} or more, so {}: {}", folder.string(),
      pixels.marked == 0 ? "no" : "every", is_train ? "training" : "held-out", threshold,
      is_train ? "there is nothing to learn" : "IoU and F1 measure nothing", remedy));
}

std::string set_name(const std::filesystem::path& folder, ImageShape shape) {
  return folder_name(folder) + " " + to_string(shape);
}

std::string folder_name(const std::filesystem::path& folder) {
  std::filesystem::path path = std::filesystem::absolute(folder).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (path.filename() == "raw") path = path.parent_path();  // torchvision's MNIST/raw
  return path.filename().string();
}

}  // namespace ddprun::trainer
