#include "trainer/data/image_folders.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/printable.hpp"
#include "trainer/data/image_files.hpp"
#include "trainer/data/read_file.hpp"
#include "trainer/data/sampler.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

std::uint64_t decoded_bytes(const ImageLists& lists, const ImageSettings& settings) {
  const bool has_masks = !lists.train.empty() && !lists.train.front().mask.empty();
  return (lists.train.size() + lists.test.size()) *
         (sample_size(settings.shape) + (has_masks ? mask_size(settings.shape) : kLabelBytes));
}

/// Empty: none.
std::string skipped_text(const SkippedFiles& skipped, std::size_t of) {
  if (skipped.count == 0) return "";
  std::string text = fmt::format("--skip-bad: {} of {} images cannot be used and {} left out",
                                 skipped.count, of, skipped.count == 1 ? "is" : "are");
  for (std::size_t i = 0; i < skipped.reasons.size(); ++i)
    text += fmt::format("{} {}", i == 0 ? ":" : ";", skipped.reasons[i]);
  if (const std::size_t more = skipped.count - skipped.reasons.size(); more > 0)
    text += fmt::format("; and {} more", more);
  return text;
}

/// Names of the folders in it, sorted.
std::vector<std::string> folder_names(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const FolderEntry& entry : list_folder(folder))
    if (entry.is_folder && !entry.name.starts_with('.')) names.push_back(entry.name);
  return names;
}

std::vector<ImageFile> list_files(const std::filesystem::path& folder,
                                  const std::vector<std::string>& classes) {
  std::vector<ImageFile> files;
  for (const std::string& name : folder_names(folder)) {
    const auto place = std::lower_bound(classes.begin(), classes.end(), name);
    if (place == classes.end() || *place != name) {
      throw DataError(
          fmt::format("{}: there is no class {} in train/: remove the folder, or train "
                      "on its class, too",
                      (folder / name).string(), name));
    }
    const std::vector<std::string> images = image_names(folder / name);
    if (images.empty()) {
      throw DataError(
          fmt::format("{}: no .jpg, .jpeg or .png file there: remove the folder, or "
                      "add images of its class",
                      (folder / name).string()));
    }
    for (const std::string& image : images) {
      files.push_back({.image = (folder / name / image).string(),
                       .label = static_cast<ImageLabel>(place - classes.begin())});
    }
  }
  if (files.empty())
    throw DataError(fmt::format("{}: no folders of classes there: add some", folder.string()));
  return files;
}

std::vector<std::string> list_classes(const std::filesystem::path& folder) {
  std::vector<std::string> classes = folder_names(folder / "train");
  check_class_count(folder / "train", classes.size());
  return classes;
}

ImageLists list_all(const std::filesystem::path& folder, const std::vector<std::string>& classes) {
  return {.train = list_files(folder / "train", classes),
          .test = list_files(held_out_folder(folder), classes),
          .classes = static_cast<int>(classes.size())};
}

/// After files were left out.
void check_classes(const std::filesystem::path& folder, const std::vector<std::string>& classes,
                   const ScannedImages& train) {
  std::vector<bool> has_images(classes.size());
  for (const ImageFile& file : train.files) has_images[file.label] = true;
  const auto without = std::find(has_images.begin(), has_images.end(), false);
  if (without == has_images.end()) return;
  throw DataError(fmt::format(
      "{}: no image there can be used: remove the folder, or add images of its class",
      (folder / "train" / classes[static_cast<std::size_t>(without - has_images.begin())])
          .string()));
}

using Pairs = std::vector<ImageFile>;

/// By their names without the end.
std::map<std::string, std::filesystem::path> files_by_stem(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder))
    throw DataError(folder.string() + ": no such folder; images/ and masks/ belong together");
  std::map<std::string, std::filesystem::path> files;
  for (const std::string& name : image_names(folder)) {
    const std::filesystem::path file = folder / name;
    const auto [place, is_new] = files.emplace(file.stem().string(), file);
    if (!is_new) {
      throw DataError(fmt::format("{} and {} have the same name but for its end: remove one",
                                  place->second.string(), file.filename().string()));
    }
  }
  return files;
}

/// In the order of their names.
Pairs list_pairs(const std::filesystem::path& folder) {
  const auto images = files_by_stem(folder / "images");
  auto masks = files_by_stem(folder / "masks");
  Pairs pairs;
  for (const auto& [stem, image] : images) {
    const auto mask = masks.find(stem);
    if (mask == masks.end()) {
      throw DataError(
          fmt::format("{}: no mask {}.jpg, .jpeg or .png in {}: add it, or remove the image",
                      image.string(), stem, (folder / "masks").string()));
    }
    pairs.push_back({.image = image, .mask = mask->second});
    masks.erase(mask);
  }
  if (!masks.empty()) {
    throw DataError(fmt::format(
        "{}: no image {}.jpg, .jpeg or .png in {}: add it, or remove the mask",
        masks.begin()->second.string(), masks.begin()->first, (folder / "images").string()));
  }
  if (pairs.empty())
    throw DataError(fmt::format("{}: no images there: add some", (folder / "images").string()));
  return pairs;
}

ImageLists list_all(const std::filesystem::path& folder, const ImageSettings& settings) {
  if (std::filesystem::is_directory(folder / "train")) {
    if (settings.holdout) {
      throw DataError(fmt::format(
          "--holdout={} divides a folder of images/ and masks/, but {} has train/: leave "
          "out --holdout, or give --data={}",
          *settings.holdout, folder.string(), (folder / "train").string()));
    }
    return {.train = list_pairs(folder / "train"), .test = list_pairs(held_out_folder(folder))};
  }
  const Pairs pairs = list_pairs(folder);
  if (!settings.holdout) {
    throw DataError(fmt::format(
        "{}: images/ and masks/ without train/: give the share of them that is held out, such as "
        "--holdout=0.15",
        folder.string()));
  }
  const auto held_out =
      static_cast<std::size_t>(static_cast<double>(pairs.size()) * *settings.holdout);
  const std::size_t kept = pairs.size() - held_out;
  if (held_out == 0 || kept == 0) {
    throw DataError(
        fmt::format("--holdout={}: of {} images {} would be held out and {} left to "
                    "train on: give another share",
                    *settings.holdout, pairs.size(), held_out, kept));
  }
  std::vector<std::uint32_t> order(pairs.size());
  permute_as_torch(settings.seed, order);
  ImageLists split;
  for (std::size_t i = 0; i < order.size(); ++i)
    (i < kept ? split.train : split.test).push_back(pairs[order[i]]);
  return split;
}

}  // namespace

TrainAndTest read_image_lists(const std::filesystem::path& folder, ImageLists lists,
                              const ImageSettings& settings,
                              const std::function<void(SetPart, const ScannedImages&)>& check) {
  const bool keeps = decoded_bytes(lists, settings) <= settings.memory;
  const std::size_t files = lists.train.size() + lists.test.size();
  ScannedImages train = scan_image_files(std::move(lists.train), settings, keeps);
  check(SetPart::train, train);
  ScannedImages test = scan_image_files(std::move(lists.test), settings, keeps);
  if (test.files.empty())
    throw DataError(fmt::format("{}: no held-out image can be used: {}", folder.string(),
                                test.skipped.reasons.front()));
  check(SetPart::test, test);
  SkippedFiles skipped = train.skipped;
  skipped += test.skipped;
  train.images.classes = test.images.classes = lists.classes;
  TrainAndTest sets;
  if (keeps) {
    sets = make_image_sets(folder, std::move(train.images), std::move(test.images));
  } else {
    const Normalization normalization = train.sums.normalization();
    const auto make = [&](ScannedImages& scanned) {
      return std::make_unique<ImageFileSet>(set_name(folder, settings.shape), std::move(scanned),
                                            lists.classes, settings, normalization);
    };
    sets.train = make(train);
    sets.test = make(test);
  }
  sets.warning = skipped_text(skipped, files);
  return sets;
}

std::uint64_t known_bytes(const ImageLists& lists, const ImageSettings& settings) {
  const std::uint64_t decoded = decoded_bytes(lists, settings);
  if (decoded <= settings.memory) return decoded;
  return ImageFileSet::bytes_of(lists.train) + ImageFileSet::bytes_of(lists.test);
}

TrainAndTest load_class_folders(const std::filesystem::path& folder,
                                const ImageSettings& settings) {
  const std::vector<std::string> classes = list_classes(folder);
  TrainAndTest sets = read_image_lists(folder, list_all(folder, classes), settings,
                                       [&](SetPart part, const ScannedImages& scanned) {
                                         if (part == SetPart::train)
                                           check_classes(folder, classes, scanned);
                                       });
  sets.class_names = classes;
  return sets;
}

void check_class_count(const std::filesystem::path& folder, std::size_t count) {
  if (count >= 2 && count <= kImageClassesMax) return;
  throw DataError(fmt::format("{}: {} folder{} of classes, but a classifier reads 2 to {}",
                              folder.string(), count, count == 1 ? "" : "s", kImageClassesMax));
}

std::uint64_t known_class_folder_bytes(const std::filesystem::path& folder,
                                       const ImageSettings& settings) {
  return known_bytes(list_all(folder, list_classes(folder)), settings);
}

std::filesystem::path held_out_folder(const std::filesystem::path& folder) {
  for (const char* name : {"val", "test"}) {
    if (std::filesystem::is_directory(folder / name)) return folder / name;
  }
  const std::string other = held_out_by_other_name(folder, "/");
  throw DataError(
      fmt::format("{}: no val/ or test/ there to evaluate on beside train/: {}", folder.string(),
                  other.empty() ? "add one" : fmt::format("rename {} to val/", printable(other))));
}

TrainAndTest load_mask_folders(const std::filesystem::path& folder, const ImageSettings& settings) {
  const auto check = [&](SetPart part, const ScannedImages& scanned) {
    if (scanned.files.empty())
      throw DataError(fmt::format("{}: no training image can be used: {}", folder.string(),
                                  scanned.skipped.reasons.front()));
    check_masks(part, {.marked = scanned.marked_pixels, .all = scanned.mask_pixels}, folder,
                settings.mask_threshold.value_or(kMaskThreshold), "give another --mask-threshold");
  };
  return read_image_lists(folder, list_all(folder, settings), settings, check);
}

std::uint64_t known_mask_folder_bytes(const std::filesystem::path& folder,
                                      const ImageSettings& settings) {
  return known_bytes(list_all(folder, settings), settings);
}

}  // namespace ddprun::trainer
