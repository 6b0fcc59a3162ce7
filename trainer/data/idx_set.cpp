#include "trainer/data/idx_set.hpp"

#include <fmt/format.h>

#include "trainer/data/idx.hpp"
#include "trainer/data/image_files.hpp"
#include "trainer/data/image_shape.hpp"
#include "trainer/data/label_range.hpp"
#include "trainer/data/read_file.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

FileLabels labels_of(const ByteImages& images, const std::filesystem::path& file) {
  return {.file = file.string(),
          .labels = {images.labels.begin(), images.labels.end()},
          .place = [](std::size_t sample) { return fmt::format("sample {}", sample); }};
}

/// What the header says; 0: there is none, which the reader reports.
std::uint64_t claimed_count(const std::filesystem::path& images) {
  constexpr std::size_t kOffset = 4;
  const std::vector<std::uint8_t> start = read_start(images, 2 * kOffset);
  if (start.size() < 2 * kOffset) return 0;
  std::uint64_t count = 0;
  for (std::size_t i = kOffset; i < 2 * kOffset; ++i) count = count << 8 | start[i];
  return count;
}

}  // namespace

TrainAndTest load_idx(const std::filesystem::path& folder, Target target, std::optional<int> head,
                      const ImageFit& fit) {
  const IdxFolder files = find_idx_folder(folder, target);
  ByteImages train = read_idx_pair(files.train_images, files.train_targets, target);
  ByteImages test = read_idx_pair(files.test_images, files.test_targets, target);
  if (train.shape != test.shape) {
    throw DataError(fmt::format("{} holds images of {}, but {} of {}", files.train_images.string(),
                                to_string(train.shape), files.test_images.string(),
                                to_string(test.shape)));
  }
  if (target == Target::label) {
    train.classes = test.classes = agree_on_classes(labels_of(train, files.train_targets),
                                                    labels_of(test, files.test_targets), head);
  }
  TrainAndTest sets = make_fitted_sets(folder, std::move(train), std::move(test), fit);
  if (target == Target::mask) {
    const char* const remedy = "look at the files of masks";
    check_masks(SetPart::train, mask_pixels(*sets.train), folder, kMaskThreshold, remedy);
    check_masks(SetPart::test, mask_pixels(*sets.test), folder, kMaskThreshold, remedy);
  }
  return sets;
}

std::uint64_t known_idx_bytes(const std::filesystem::path& folder, Target target,
                              const ImageFit& fit) {
  const IdxFolder files = find_idx_folder(folder, target);
  std::uint64_t own = 0;
  for (const std::filesystem::path* const file :
       {&files.train_images, &files.train_targets, &files.test_images, &files.test_targets}) {
    std::error_code unreadable;  // reported by the reader
    const std::uintmax_t size = std::filesystem::file_size(*file, unreadable);
    if (!unreadable && file->extension() != ".gz") own += size;
  }
  if (!fit.shape) return own;
  const std::uint64_t of_target = target == Target::mask ? mask_size(*fit.shape) : kLabelBytes;
  const std::uint64_t images = claimed_count(files.train_images) + claimed_count(files.test_images);
  return fitted_bytes(own, images * (sample_size(*fit.shape) + of_target), fit);
}

}  // namespace ddprun::trainer
