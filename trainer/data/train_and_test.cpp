#include "trainer/data/train_and_test.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.hpp"
#include "trainer/data/data_set.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

int classes_of(const FileLabels& file) {
  return file.labels.empty() ? 0 : *std::max_element(file.labels.begin(), file.labels.end()) + 1;
}

/// Labels as numbers of something else, such as ids, give a head of mostly unused outputs. Nobody
/// would see that but by its memory, so it must be asked for.
void check_gaps(const FileLabels& file, int classes) {
  if (classes <= kClassesUnasked) return;
  std::vector<bool> occurs(static_cast<std::size_t>(classes));
  for (const std::int32_t label : file.labels) occurs[static_cast<std::size_t>(label)] = true;
  const auto used = std::count(occurs.begin(), occurs.end(), true);
  if (2 * used >= classes) return;
  const auto highest = std::max_element(file.labels.begin(), file.labels.end());
  throw DataError(fmt::format(
      "{}: {}: the label is {}, so that there would be {} classes, but only {} different labels "
      "occur: number them from 0 on, or give --classes={} if they are right",
      file.file, file.place(static_cast<std::size_t>(highest - file.labels.begin())), *highest,
      classes, used, classes));
}

/// `limit`: what the labels may not go beyond, in words.
void check_labels(const FileLabels& file, int classes, const std::string& limit) {
  const auto beyond = std::find_if(file.labels.begin(), file.labels.end(),
                                   [&](std::int32_t label) { return label >= classes; });
  if (beyond == file.labels.end()) return;
  throw DataError(fmt::format(
      "{}: {}: the label is {}, but {}: correct the file, or give --classes={} if the label is "
      "right",
      file.file, file.place(static_cast<std::size_t>(beyond - file.labels.begin())), *beyond, limit,
      classes_of(file)));
}

}  // namespace

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

MaskPixels mask_pixels(const ImageSet& set) {
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

int agree_on_classes(const FileLabels& train, const FileLabels& test, std::optional<int> head) {
  const int classes = classes_of(train);
  if (head) {
    const std::string limit = fmt::format("--classes={} allows 0 to {}", *head, *head - 1);
    check_labels(train, *head, limit);
    check_labels(test, *head, limit);
  } else if (classes < 2) {
    throw DataError(fmt::format(
        "{}: all labels are 0, but a classifier needs two classes: correct the file, or give "
        "--classes",
        train.file));
  } else {
    check_gaps(train, classes);
    check_labels(test, classes, fmt::format("the labels of {} end at {}", train.file, classes - 1));
  }
  return std::max(classes, classes_of(test));
}

}  // namespace ddprun::trainer
