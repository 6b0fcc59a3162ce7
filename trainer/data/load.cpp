#include "trainer/data/load.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "trainer/data/cifar.hpp"
#include "trainer/data/data_set.hpp"
#include "trainer/data/idx.hpp"
#include "trainer/data/image_folders.hpp"
#include "trainer/data/read_file.hpp"
#include "trainer/data/shapes.hpp"
#include "trainer/data/text_set.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

// Seeds belong to the sets, not to the run: every run sees the same samples.
constexpr std::uint64_t kShapesSeed = 20;
constexpr std::uint64_t kSentencesSeed = 21;
constexpr std::uint64_t kCracksSeed = 22;

/// How many generated pictures or sentences there are: for training, held out.
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

void append_names(const std::filesystem::path& folder, const std::string& prefix,
                  std::vector<std::string>& names) {
  for (const FolderEntry& entry : list_folder(folder))
    names.push_back(prefix + entry.name + (entry.is_folder ? "/" : ""));
}

/// Nothing where there is no such folder, or where it cannot be listed: another one may have the
/// data.
void append_inner(const std::filesystem::path& folder, const std::string& inner,
                  std::vector<std::string>& names) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) return;
  try {
    append_names(folder, inner + "/", names);
  } catch (const DataError&) {
  }
}

/// As decide_format() wants them, sorted.
std::vector<std::string> list_names(const std::filesystem::path& folder, DataKind kind) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    throw DataError(fmt::format(
        "{}: {}; --data takes a folder with a data set, or `generated`", folder.string(),
        std::filesystem::exists(folder, ignored) ? "not a directory" : "no such directory"));
  }
  std::vector<std::string> names;
  append_names(folder, "", names);
  if (std::filesystem::is_directory(folder / "train", ignored))
    append_names(folder / "train", "train/", names);
  // Else they may be anything of the user's, such as a million raw files.
  if (!holds_set_itself(names, kind))
    for (const std::string& inner : inner_folders()) append_inner(folder / inner, inner, names);
  std::sort(names.begin(), names.end());
  return names;
}

/// What the request's folder holds, and where.
struct Place {
  FolderFormat format;
  std::filesystem::path folder;
};

Place place_of(const DataRequest& request) {
  const auto [format, inner] =
      decide_format(request.data, list_names(request.data, request.kind), request.kind);
  std::filesystem::path folder = request.data;
  if (!inner.empty()) folder /= inner;
  const bool has_image_files =
      format == FolderFormat::mask_folders || format == FolderFormat::class_folders;
  if (request.images.skip_bad && !has_image_files) {
    throw DataError(fmt::format("--skip-bad needs a folder with JPEG and PNG files: {} has none",
                                request.data));
  }
  if (format == FolderFormat::mask_folders) return {format, folder};
  for (const auto& [option, is_given] :
       {std::pair("--holdout", request.images.holdout.has_value()),
        std::pair("--mask-threshold", request.images.mask_threshold.has_value())}) {
    if (is_given) {
      throw DataError(fmt::format("{} needs a folder with images/ and masks/: {} has none", option,
                                  request.data));
    }
  }
  return {format, folder};
}

Target target_of(DataKind kind) {
  return kind == DataKind::masked_images ? Target::mask : Target::label;
}

ImageFit fit_of(const DataRequest& request) {
  return {.shape = request.other_shape,
          .memory = request.images.memory,
          .threads = request.images.threads};
}

}  // namespace

TrainAndTest generate_shapes(ImageShape shape, Target target, int threads) {
  const bool masked = target == Target::mask;
  const std::string name =
      fmt::format("generated {} {}", masked ? "masked shapes" : "shapes", to_string(shape));
  const auto make = [&](std::size_t first, std::size_t count) {
    return std::make_unique<ByteImageSet>(
        name, make_shapes(kShapesSeed, first, count, shape, target, threads),
        shapes_normalization(shape.channels));
  };
  const Counts counts = count_shapes(shape, target);
  return {.train = make(0, counts.train), .test = make(counts.train, counts.test)};
}

std::uint64_t generated_shape_bytes(ImageShape shape, Target target) {
  const Counts counts = count_shapes(shape, target);
  const std::size_t of_target = target == Target::mask ? mask_size(shape) : kLabelBytes;
  return (counts.train + counts.test) * (sample_size(shape) + of_target);
}

TrainAndTest generate_cracks(ImageShape shape) {
  const std::string name = fmt::format("generated cracks {}", to_string(shape));
  const auto channels = static_cast<std::size_t>(shape.channels);
  // The set's own constants.
  const Normalization normalization{.mean = std::vector<float>(channels, 0.5F),
                                    .deviation = std::vector<float>(channels, 0.13F)};
  const auto make = [&](std::size_t first, std::size_t count) {
    return std::make_unique<ByteImageSet>(name, make_cracks(kCracksSeed, first, count, shape),
                                          normalization);
  };
  return {.train = make(0, kCracksTrainCount), .test = make(kCracksTrainCount, kCracksTestCount)};
}

std::uint64_t generated_crack_bytes(ImageShape shape) {
  return (kCracksTrainCount + kCracksTestCount) * (sample_size(shape) + mask_size(shape));
}

TrainAndTest generate_sentences(const SentenceSettings& settings) {
  const std::string name = fmt::format("generated sentences of up to {} tokens", settings.tokens);
  const auto make = [&](std::size_t first, std::size_t count) {
    return std::make_unique<TextSet>(name,
                                     make_sentences(kSentencesSeed, first, count, settings.tokens));
  };
  const Counts counts = count_sentences(settings);
  return {.train = make(0, counts.train), .test = make(counts.train, counts.test)};
}

std::uint64_t generated_sentence_bytes(const SentenceSettings& settings) {
  constexpr std::size_t kMeasured = 1'000;
  const Counts counts = count_sentences(settings);
  const std::size_t measured = std::min(counts.train, kMeasured);
  const TokenizedTexts first = make_sentences(kSentencesSeed, 0, measured, settings.tokens);
  return bytes_of(first) * (counts.train + counts.test) / measured;
}

TrainAndTest load_data(const DataRequest& request) {
  if (request.data == kGeneratedCracks) return generate_cracks(request.images.shape);
  if (request.data == kGeneratedData) {
    return request.kind == DataKind::texts
               ? generate_sentences(request.sentences)
               : generate_shapes(request.images.shape, target_of(request.kind),
                                 request.images.threads);
  }
  const auto [format, folder] = place_of(request);
  switch (format) {
    case FolderFormat::idx:
      return load_idx(folder, target_of(request.kind), request.head, fit_of(request));
    case FolderFormat::cifar:
      return load_cifar(folder, fit_of(request));
    case FolderFormat::tsv:
      return load_tsv(folder, request.texts, request.head);
    case FolderFormat::class_folders:
      return load_class_folders(folder, request.images);
    case FolderFormat::mask_folders:
      return load_mask_folders(folder, request.images);
  }
  return {};
}

std::uint64_t known_data_bytes(const DataRequest& request) {
  if (request.data == kGeneratedCracks) return generated_crack_bytes(request.images.shape);
  if (request.data == kGeneratedData) {
    return request.kind == DataKind::texts
               ? generated_sentence_bytes(request.sentences)
               : generated_shape_bytes(request.images.shape, target_of(request.kind));
  }
  const auto [format, folder] = place_of(request);
  switch (format) {
    case FolderFormat::idx:
      return known_idx_bytes(folder, target_of(request.kind), fit_of(request));
    case FolderFormat::cifar:
      return known_cifar_bytes(folder, fit_of(request));
    case FolderFormat::tsv:
      return known_tsv_bytes(folder);
    case FolderFormat::class_folders:
      return known_class_folder_bytes(folder, request.images);
    case FolderFormat::mask_folders:
      return known_mask_folder_bytes(folder, request.images);
  }
  return 0;
}

}  // namespace ddprun::trainer
