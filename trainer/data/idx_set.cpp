#include "trainer/data/idx_set.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/data/idx.hpp"
#include "trainer/data/image_shape.hpp"
#include "trainer/data/read_file.hpp"
#include "trainer/data/resize.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

/// The first sample with a label of `classes` or more; none: -1.
std::ptrdiff_t first_beyond(const ByteImages& images, int classes) {
  const auto beyond = std::find_if(images.labels.begin(), images.labels.end(),
                                   [&](int label) { return label >= classes; });
  return beyond == images.labels.end() ? -1 : beyond - images.labels.begin();
}

/// `limit`: what the labels may not go beyond, in words.
void check_labels(const ByteImages& images, int classes, const std::filesystem::path& file,
                  const std::string& limit) {
  const std::ptrdiff_t sample = first_beyond(images, classes);
  if (sample < 0) return;
  const int label = images.labels[static_cast<std::size_t>(sample)];
  throw DataError(
      fmt::format("{} holds the label {} (sample {}), but {}: correct the file, or give "
                  "--classes={} if the label is right",
                  file.string(), label, sample, limit, std::max(images.classes, label + 1)));
}

/// Both sets come to have the classes of both.
void agree_on_classes(const IdxFolder& files, std::optional<int> head, ByteImages& train,
                      ByteImages& test) {
  if (head) {
    const std::string limit = fmt::format("--classes={} allows 0 to {}", *head, *head - 1);
    check_labels(train, *head, files.train_targets, limit);
    check_labels(test, *head, files.test_targets, limit);
  } else if (train.classes < 2) {
    throw DataError(fmt::format(
        "{}: all labels are 0, but a classifier needs two classes: correct the file, or give "
        "--classes",
        files.train_targets.string()));
  } else {
    check_labels(
        test, train.classes, files.test_targets,
        fmt::format("the labels of {} end at {}", files.train_targets.string(), train.classes - 1));
  }
  train.classes = test.classes = std::max(train.classes, test.classes);
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
                      const std::optional<ImageShape>& shape) {
  const IdxFolder files = find_idx_folder(folder, target);
  ByteImages train = read_idx_pair(files.train_images, files.train_targets, target);
  ByteImages test = read_idx_pair(files.test_images, files.test_targets, target);
  if (train.shape != test.shape) {
    throw DataError(fmt::format("{} holds images of {}, but {} of {}", files.train_images.string(),
                                to_string(train.shape), files.test_images.string(),
                                to_string(test.shape)));
  }
  if (target == Target::label) agree_on_classes(files, head, train, test);
  return make_image_sets(folder, fit_images(std::move(train), shape),
                         fit_images(std::move(test), shape));
}

std::uint64_t known_idx_bytes(const std::filesystem::path& folder, Target target,
                              const std::optional<ImageShape>& shape) {
  const IdxFolder files = find_idx_folder(folder, target);
  if (shape) {
    const std::uint64_t of_target = target == Target::mask ? mask_size(*shape) : 1;
    return (claimed_count(files.train_images) + claimed_count(files.test_images)) *
           (sample_size(*shape) + of_target);
  }
  std::uint64_t bytes = 0;
  for (const std::filesystem::path* const file :
       {&files.train_images, &files.train_targets, &files.test_images, &files.test_targets}) {
    std::error_code unreadable;  // reported by the reader
    const std::uintmax_t size = std::filesystem::file_size(*file, unreadable);
    if (!unreadable && file->extension() != ".gz") bytes += size;
  }
  return bytes;
}

}  // namespace ddprun::trainer
