#include "trainer/data/class_folders.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <vector>

#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

struct LabelledFiles {
  std::vector<ImageFile> files;
  std::vector<std::uint8_t> labels;
};

/// Names of the folders in it, sorted.
std::vector<std::string> class_names(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code failed;
  for (std::filesystem::directory_iterator it(folder, failed), end; !failed && it != end;
       it.increment(failed)) {
    std::error_code ignored;
    const std::string name = it->path().filename().string();
    if (it->is_directory(ignored) && !name.starts_with('.')) names.push_back(name);
  }
  if (failed) throw DataError(fmt::format("{}: {}", folder.string(), failed.message()));
  std::sort(names.begin(), names.end());
  return names;
}

LabelledFiles list_files(const std::filesystem::path& folder,
                         const std::vector<std::string>& classes) {
  LabelledFiles list;
  for (const std::string& name : class_names(folder)) {
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
      list.files.push_back({.image = folder / name / image});
      list.labels.push_back(static_cast<std::uint8_t>(place - classes.begin()));
    }
  }
  if (list.files.empty())
    throw DataError(fmt::format("{}: no folders of classes there: add some", folder.string()));
  return list;
}

struct Lists {
  std::size_t classes = 0;
  LabelledFiles train, test;
};

Lists list_all(const std::filesystem::path& folder) {
  const std::vector<std::string> classes = class_names(folder / "train");
  if (classes.size() < 2 || classes.size() > kClassFoldersMax) {
    throw DataError(fmt::format("{}: {} folder{} of classes, but a classifier reads 2 to {}",
                                (folder / "train").string(), classes.size(),
                                classes.size() == 1 ? "" : "s", kClassFoldersMax));
  }
  return {.classes = classes.size(),
          .train = list_files(folder / "train", classes),
          .test = list_files(held_out_folder(folder), classes)};
}

ByteImages read(LabelledFiles list, std::size_t classes, const ImageSettings& settings) {
  ByteImages images = read_image_files(list.files, settings);
  images.labels = std::move(list.labels);
  images.classes = static_cast<int>(classes);
  return images;
}

}  // namespace

TrainAndTest load_class_folders(const std::filesystem::path& folder,
                                const ImageSettings& settings) {
  Lists lists = list_all(folder);
  ByteImages train = read(std::move(lists.train), lists.classes, settings);
  TrainAndTest sets = make_image_sets(folder, std::move(train),
                                      read(std::move(lists.test), lists.classes, settings));
  sets.class_names = class_names(folder / "train");
  return sets;
}

std::uint64_t known_class_folder_bytes(const std::filesystem::path& folder, ImageShape shape) {
  const Lists lists = list_all(folder);
  return (lists.train.files.size() + lists.test.files.size()) * (sample_size(shape) + 1);
}

std::filesystem::path held_out_folder(const std::filesystem::path& folder) {
  for (const char* name : {"val", "test"}) {
    if (std::filesystem::is_directory(folder / name)) return folder / name;
  }
  throw DataError(
      fmt::format("{}: no val/ or test/ there to evaluate on beside train/", folder.string()));
}

}  // namespace ddprun::trainer
