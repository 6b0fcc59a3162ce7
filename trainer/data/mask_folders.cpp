#include "trainer/data/mask_folders.hpp"

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "trainer/data/class_folders.hpp"
#include "trainer/data/image_lists.hpp"
#include "trainer/data/sampler.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

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
