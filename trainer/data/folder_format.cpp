#include "trainer/data/folder_format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "base/printable.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

constexpr std::size_t kShownNames = 8;

using Names = std::vector<std::string>;

bool is_idx_file(std::string_view name) {
  const bool has_part = name.starts_with("train-") || name.starts_with("t10k-");
  return has_part && name.find("-ubyte") != std::string_view::npos;
}

bool is_cifar_file(std::string_view name) {
  return name == "test_batch.bin" || (name.size() == std::string_view("data_batch_1.bin").size() &&
                                      name.starts_with("data_batch_") && name.ends_with(".bin"));
}

bool is_cifar_file_inside(std::string_view name) {
  const std::string_view folder = kCifarFolder;
  return name.size() > folder.size() && name.starts_with(folder) &&
         is_cifar_file(name.substr(folder.size() + 1));
}

bool is_tsv_file(std::string_view name) { return name == "train.tsv"; }

bool is_mask_folder_in_train(std::string_view name) {
  return name == "train/images/" || name == "train/masks/";
}

bool is_mask_folder(std::string_view name) {
  return name == "images/" || name == "masks/" || is_mask_folder_in_train(name);
}

bool is_class_folder(std::string_view name) {
  constexpr std::string_view kTrain = "train/";
  return name.starts_with(kTrain) && name.size() > kTrain.size() && name.ends_with('/');
}

/// What a set is trained on beside a held-out part of this name; empty: it is no such part.
std::string_view training_part_of(std::string_view name) {
  if (name == "val/" || name == "test/") return "train/";
  return name == "dev.tsv" || name == "test.tsv" ? "train.tsv" : "";
}

/// Of a folder train/ in which nothing was recognised.
void refuse_train_folder(const std::string& folder, const Names& names, DataKind kind) {
  if (kind == DataKind::texts || std::find(names.begin(), names.end(), "train/") == names.end())
    return;
  const bool is_empty = std::none_of(names.begin(), names.end(), [](const std::string& name) {
    return name.starts_with("train/") && name != "train/";
  });
  throw DataError(fmt::format(
      "{}: train/ {}: put {}", folder, is_empty ? "is empty" : "has no folder in it",
      kind == DataKind::masked_images
          ? "images into train/images/ and their masks into train/masks/, held-out ones into val/"
          : "the images of each class into train/CLASS/, held-out ones into val/CLASS/"));
}

struct Row {
  FolderFormat format;
  std::vector<DataKind> kinds;
  bool (*is_part)(std::string_view name);  ///< one such name is enough
  const char* what;                        ///< "holds ..."
  const char* looked_for;                  ///< empty: named by another row
};

const std::vector<Row>& rows() {
  using enum FolderFormat;
  static const std::vector<Row> kRows{
      {idx,
       {DataKind::labelled_images, DataKind::masked_images},
       is_idx_file,
       "MNIST-like files",
       "train-images-idx3-ubyte (MNIST-like)"},
      {cifar,
       {DataKind::labelled_images},
       is_cifar_file,
       "CIFAR-10's binary files",
       "data_batch_1.bin (CIFAR-10)"},
      {cifar_inside,
       {DataKind::labelled_images},
       is_cifar_file_inside,
       "the folder cifar-10-batches-bin",
       ""},
      {tsv, {DataKind::texts}, is_tsv_file, "texts", "train.tsv with dev.tsv or test.tsv"},
      {mask_folders,
       {DataKind::masked_images},
       is_mask_folder,
       "images with masks",
       "images/ and masks/, in train/ or not"},
      {class_folders,
       {DataKind::labelled_images},
       is_class_folder,
       "folders of classes",
       "train/CLASS/ with val/CLASS/ or test/CLASS/"},
  };
  return kRows;
}

const char* kind_text(DataKind kind) {
  if (kind == DataKind::masked_images) return "learns masks";
  return kind == DataKind::texts ? "reads texts" : "learns labels of images";
}

bool is_for(const Row& row, DataKind kind) {
  return std::find(row.kinds.begin(), row.kinds.end(), kind) != row.kinds.end();
}

std::string joined(const std::vector<std::string>& parts, const char* last) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += i + 1 == parts.size() ? last : ", ";
    text += parts[i];
  }
  return text;
}

/// The first ones at the top.
std::string names_text(const Names& names) {
  Names shown;
  std::size_t more = 0;
  for (const std::string& name : names) {
    if (const std::size_t slash = name.find('/');
        slash != std::string::npos && slash + 1 < name.size())
      continue;
    if (shown.size() < kShownNames) {
      shown.push_back(printable(name));
    } else {
      ++more;
    }
  }
  if (shown.empty()) return "it is empty";
  if (more > 0) shown.push_back(fmt::format("{} more", more));
  return "it holds " + joined(shown, " and ");
}

}  // namespace

FolderFormat decide_format(const std::string& folder, const Names& names, DataKind kind) {
  std::vector<const Row*> found;
  for (const Row& row : rows())
    if (std::any_of(names.begin(), names.end(), row.is_part)) found.push_back(&row);
  // In train/ there are images and masks, not classes of these names.
  if (std::any_of(names.begin(), names.end(), is_mask_folder_in_train))
    std::erase_if(found, [](const Row* row) { return row->format == FolderFormat::class_folders; });
  std::vector<const Row*> fitting;
  std::copy_if(found.begin(), found.end(), std::back_inserter(fitting),
               [&](const Row* row) { return is_for(*row, kind); });
  if (fitting.size() == 1) return fitting.front()->format;
  if (fitting.size() > 1)
    throw DataError(fmt::format("{} holds {} and {}: put each into a folder of its own", folder,
                                fitting[0]->what, fitting[1]->what));
  if (!found.empty())
    throw DataError(
        fmt::format("{} holds {}, but this model {}: use another --model, or --data generated",
                    folder, found.front()->what, kind_text(kind)));
  for (const std::string& name : names) {
    const std::string_view part = training_part_of(name);
    const bool is_for_texts = part == "train.tsv";
    if (part.empty() || is_for_texts != (kind == DataKind::texts)) continue;
    if (std::find(names.begin(), names.end(), part) != names.end()) continue;
    throw DataError(fmt::format(
        "{}: {} has held-out data, but there is no {} to train on beside it (--eval needs it, "
        "too): add it",
        folder, name, part));
  }
  refuse_train_folder(folder, names, kind);
  std::vector<std::string> looked_for;
  for (const Row& row : rows())
    if (is_for(row, kind) && *row.looked_for != 0) looked_for.emplace_back(row.looked_for);
  throw DataError(fmt::format("{}: no data for a model that {}: looked for {}; {}", folder,
                              kind_text(kind), joined(looked_for, " and for "), names_text(names)));
}

}  // namespace ddprun::trainer
