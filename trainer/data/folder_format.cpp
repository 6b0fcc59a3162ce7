#include "trainer/data/folder_format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "base/printable.hpp"
#include "base/shell_word.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

constexpr std::size_t kShownNames = 8;
/// Folders that archives, torchvision's data sets and Keras make. Files of QMNIST and EMNIST are
/// looked for to be refused by name.
constexpr const char* kInnerFolders[] = {"cifar-10-batches-bin",
                                         "MNIST/raw",
                                         "FashionMNIST/raw",
                                         "KMNIST/raw",
                                         "QMNIST/raw",
                                         "EMNIST/raw",
                                         "raw",
                                         "mnist",
                                         "fashion-mnist"};

using Names = std::vector<std::string>;

bool is_idx_file(std::string_view name) {
  const bool has_part = name.starts_with("train-") || name.starts_with("t10k-");
  return has_part && name.find("-ubyte") != std::string_view::npos;
}

bool is_cifar_file(std::string_view name) {
  return name == "test_batch.bin" || (name.size() == std::string_view("data_batch_1.bin").size() &&
                                      name.starts_with("data_batch_") && name.ends_with(".bin"));
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

/// Throws DataError where there is a folder train/ in which nothing was recognised.
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
  const char* looked_for;
  bool may_be_inside = false;  ///< in one of kInnerFolders
};

const std::vector<Row>& rows() {
  using enum FolderFormat;
  static const std::vector<Row> kRows{
      {idx,
       {DataKind::labelled_images, DataKind::masked_images},
       is_idx_file,
       "MNIST-like files",
       "train-images-idx3-ubyte (MNIST-like)",
       true},
      {cifar,
       {DataKind::labelled_images},
       is_cifar_file,
       "CIFAR-10's binary files",
       "data_batch_1.bin (CIFAR-10)",
       true},
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

/// A data set of a folder.
struct Found {
  const Row* row = nullptr;
  std::string inner = {};  ///< FolderChoice::inner
  [[nodiscard]] std::string text() const {
    return inner.empty() ? row->what : fmt::format("{} in {}", row->what, inner);
  }
};

std::vector<Found> find_sets(const Names& names) {
  std::vector<Found> found;
  for (const Row& row : rows()) {
    if (std::any_of(names.begin(), names.end(), row.is_part)) found.push_back({&row});
    if (!row.may_be_inside) continue;
    for (const std::string inner : kInnerFolders) {
      const std::string prefix = inner + "/";
      const bool is_there = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
        return name.starts_with(prefix) &&
               row.is_part(std::string_view(name).substr(prefix.size()));
      });
      if (is_there) found.push_back({&row, inner});
    }
  }
  // In train/ there are images and masks, not classes of these names.
  if (std::any_of(names.begin(), names.end(), is_mask_folder_in_train)) {
    std::erase_if(found,
                  [](const Found& one) { return one.row->format == FolderFormat::class_folders; });
  }
  return found;
}

/// Files that hold a data set, but not as it is read. Throws DataError that says what to do.
void refuse_other_forms(const std::string& folder, const Names& names) {
  const auto base_of = [](const std::string& name) { return name.substr(name.rfind('/') + 1); };
  const auto refuse_python_version = [&](const std::string& name) {
    throw DataError(fmt::format(
        "{}: {} is of CIFAR-10's Python version: download its binary version "
        "(https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz) and unpack that there",
        folder, printable(name)));
  };
  for (const std::string& name : names) {
    const std::string base = base_of(name);
    if (name == "cifar-10-batches-py/" || base == "data_batch_1") refuse_python_version(name);
    if (base.starts_with("emnist-") && base.find("-ubyte") != std::string::npos) {
      throw DataError(fmt::format(
          "{}: {} is a file of EMNIST: put the four files of one split into a folder of their own, "
          "as train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
          "t10k-labels-idx1-ubyte",
          folder, printable(name)));
    }
    if (base.starts_with("qmnist-") && base.find("-idx") != std::string::npos) {
      throw DataError(fmt::format(
          "{}: {} is a file of QMNIST, whose labels have eight columns: put the images into a "
          "folder of their own, as train-images-idx3-ubyte and t10k-images-idx3-ubyte, and the "
          "first column of the labels as train-labels-idx1-ubyte and t10k-labels-idx1-ubyte",
          folder, printable(name)));
    }
    if (name.ends_with(".npz"))
      throw DataError(fmt::format(
          "{}: {} is an archive of NumPy, which is not read: give the data set's own files", folder,
          printable(name)));
  }
  for (const std::string& name : names) {
    if (base_of(name) == "cifar-10-python.tar.gz") refuse_python_version(name);
    const bool is_zip = name.ends_with(".zip");
    if (is_zip || name.ends_with(".tar.gz") || name.ends_with(".tgz") || name.ends_with(".tar")) {
      const std::string file = shell_word(folder + "/" + name);
      throw DataError(fmt::format("{}: {} is not unpacked: {} {} {} {}", folder, printable(name),
                                  is_zip ? "unzip" : "tar -xf", file, is_zip ? "-d" : "-C",
                                  shell_word(folder)));
    }
  }
}

}  // namespace

std::vector<std::string> inner_folders() {
  return {std::begin(kInnerFolders), std::end(kInnerFolders)};
}

bool holds_set_itself(const Names& names, DataKind kind) {
  const std::vector<Found> found = find_sets(names);
  return std::any_of(found.begin(), found.end(),
                     [&](const Found& one) { return one.inner.empty() && is_for(*one.row, kind); });
}

FolderChoice decide_format(const std::string& folder, const Names& names, DataKind kind) {
  const std::vector<Found> found = find_sets(names);
  const bool is_here = holds_set_itself(names, kind);
  std::vector<Found> fitting;
  std::copy_if(found.begin(), found.end(), std::back_inserter(fitting), [&](const Found& one) {
    return is_for(*one.row, kind) && (one.inner.empty() || !is_here);
  });
  if (fitting.size() == 1) return {fitting.front().row->format, fitting.front().inner};
  if (fitting.size() > 1) {
    const std::string& inner = fitting.back().inner;
    throw DataError(fmt::format(
        "{} holds {} and {}: {}", folder, fitting[0].text(), fitting[1].text(),
        inner.empty() ? "put each into a folder of its own"
                      : fmt::format("give one of them, such as --data={}/{}", folder, inner)));
  }
  if (!found.empty())
    throw DataError(
        fmt::format("{} holds {}, but this model {}: use another --model, or --data generated",
                    folder, found.front().text(), kind_text(kind)));
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
  if (kind != DataKind::texts) refuse_other_forms(folder, names);
  std::vector<std::string> looked_for;
  for (const Row& row : rows())
    if (is_for(row, kind)) looked_for.emplace_back(row.looked_for);
  throw DataError(fmt::format("{}: no data for a model that {}: looked for {}; {}", folder,
                              kind_text(kind), joined(looked_for, " and for "), names_text(names)));
}

}  // namespace ddprun::trainer
