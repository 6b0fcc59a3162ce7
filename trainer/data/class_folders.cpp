#include "trainer/data/class_folders.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/printable.hpp"
#include "trainer/data/image_lists.hpp"
#include "trainer/data/list_folder.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

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

}  // namespace

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

}  // namespace ddprun::trainer
