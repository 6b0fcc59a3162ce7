#include "trainer/data/load.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "trainer/data/byte_images.hpp"
#include "trainer/data/idx.hpp"
#include "trainer/data/shapes.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

// Of the sets, not of the run: every run sees the same samples.
constexpr std::uint64_t kShapesSeed = 20;
constexpr std::uint64_t kSentencesSeed = 21;

/// Of generated pictures and sentences: for training, held out.
struct Counts {
  std::size_t train = 0;
  std::size_t test = 0;
};

Counts count_shapes(ImageShape shape, Target target) {
  const bool few = target == Target::mask || shape.height * shape.width > kManyShapesPixelsMax;
  if (few) return {kFewShapesTrainCount, kFewShapesTestCount};
  return {kShapesTrainCount, kShapesTestCount};
}

Counts count_sentences(const SentenceSettings& settings) {
  const auto count = static_cast<std::size_t>(settings.count);
  return {count, (count + 3) / 4};
}

TrainAndTest load_shapes(ImageShape shape, Target target) {
  const bool masked = target == Target::mask;
  const std::string name =
      fmt::format("generated {} {}", masked ? "masked shapes" : "shapes", to_string(shape));
  const auto make = [&](std::size_t first, std::size_t count) {
    return std::make_unique<ByteImageSet>(name,
                                          make_shapes(kShapesSeed, first, count, shape, target),
                                          shapes_normalization(shape.channels));
  };
  const Counts counts = count_shapes(shape, target);
  return {.train = make(0, counts.train), .test = make(counts.train, counts.test)};
}

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

TrainAndTest load_idx(const std::filesystem::path& folder, Target target, std::optional<int> head) {
  const IdxFolder files = find_idx_folder(folder, target);
  ByteImages train = read_idx_pair(files.train_images, files.train_targets, target);
  ByteImages test = read_idx_pair(files.test_images, files.test_targets, target);
  if (to_string(train.shape) != to_string(test.shape)) {
    throw DataError(fmt::format("{} holds images of {}, but {} of {}", files.train_images.string(),
                                to_string(train.shape), files.test_images.string(),
                                to_string(test.shape)));
  }
  if (target == Target::label) agree_on_classes(files, head, train, test);
  const Normalization normalization = measure_normalization(train);
  const std::string name =
      fmt::format("{} {}", std::filesystem::absolute(folder).lexically_normal().filename().string(),
                  to_string(train.shape));
  TrainAndTest sets;
  sets.train = std::make_unique<ByteImageSet>(name, std::move(train), normalization);
  sets.test = std::make_unique<ByteImageSet>(name, std::move(test), normalization);
  return sets;
}

/// The first three, whatever is between them; 0 for those that are not there.
ImageShape numbers_in(const std::string& text) {
  ImageShape shape{.height = 0, .width = 0, .channels = 0};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int* number : {&shape.height, &shape.width, &shape.channels}) {
    at = std::from_chars(at, end, *number).ptr;
    if (at != end) ++at;
  }
  return shape;
}

}  // namespace

std::string to_string(ImageShape shape) {
  return fmt::format("{}x{}x{}", shape.height, shape.width, shape.channels);
}

ImageShape parse_image_shape(const std::string& text) {
  const ImageShape shape = numbers_in(text);
  const bool has_sides = std::min(shape.height, shape.width) >= 1 &&
                         std::max(shape.height, shape.width) <= kGeneratedSideMax;
  const bool has_channels = shape.channels == 1 || shape.channels == 3;
  if (has_sides && has_channels && text == to_string(shape)) return shape;
  throw DataError(fmt::format(
      "--image-shape {}: must be like 64x96x3, with sides of at most {} and 1 or 3 channels", text,
      kGeneratedSideMax));
}

TrainAndTest load_data(const std::string& data, ImageShape generated_shape, Target target,
                       std::optional<int> head) {
  return data == kGeneratedData ? load_shapes(generated_shape, target)
                                : load_idx(data, target, head);
}

std::uint64_t known_data_bytes(const std::string& data, ImageShape generated_shape, Target target) {
  if (data == kGeneratedData) {
    const Counts counts = count_shapes(generated_shape, target);
    const std::size_t of_target = target == Target::mask ? mask_size(generated_shape) : 1;
    return (counts.train + counts.test) * (sample_size(generated_shape) + of_target);
  }
  const IdxFolder files = find_idx_folder(data, target);
  std::uint64_t bytes = 0;
  for (const std::filesystem::path* const file :
       {&files.train_images, &files.train_targets, &files.test_images, &files.test_targets}) {
    std::error_code unreadable;  // reported by the reader
    const std::uintmax_t size = std::filesystem::file_size(*file, unreadable);
    if (!unreadable && file->extension() != ".gz") bytes += size;
  }
  return bytes;
}

TrainAndTest load_texts(const std::string& data, const SentenceSettings& settings) {
  if (data != kGeneratedData)
    throw DataError(fmt::format(
        "--data {}: a model of texts reads no files yet: use --data {}, or another --model", data,
        kGeneratedData));
  const std::string name = fmt::format("generated sentences of up to {} tokens", settings.tokens);
  const auto make = [&](std::size_t first, std::size_t count) {
    return std::make_unique<TextSet>(name,
                                     make_sentences(kSentencesSeed, first, count, settings.tokens));
  };
  const Counts counts = count_sentences(settings);
  return {.train = make(0, counts.train), .test = make(counts.train, counts.test)};
}

std::uint64_t expected_text_bytes(const SentenceSettings& settings) {
  constexpr std::size_t kMeasured = 1'000;
  const Counts counts = count_sentences(settings);
  const std::size_t measured = std::min(counts.train, kMeasured);
  const TokenizedTexts first = make_sentences(kSentencesSeed, 0, measured, settings.tokens);
  return bytes_of(first) * (counts.train + counts.test) / measured;
}

}  // namespace ddprun::trainer
