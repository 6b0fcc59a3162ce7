// Which kind of data set a folder holds, judged by the names in it. Pure.
#pragma once

#include <string>
#include <vector>

namespace ddprun::trainer {

/// What a model learns from.
enum class DataKind {
  labelled_images,
  masked_images,
  texts,  ///< with labels
};

enum class FolderFormat {
  idx,            ///< MNIST's files (idx.hpp), with labels or masks
  cifar,          ///< CIFAR-10's binary files (cifar.hpp)
  tsv,            ///< train.tsv with dev.tsv or test.tsv (tsv.hpp)
  class_folders,  ///< train/CLASS/ with val/ or test/ (image_folders.hpp)
  mask_folders,   ///< images/ and masks/, in train/ or not (image_folders.hpp)
};

struct FolderChoice {
  FolderFormat format;
  std::string inner = {};  ///< where the files are: "MNIST/raw"; empty: in the folder itself
  friend bool operator==(const FolderChoice&, const FolderChoice&) = default;
};

/// The format of a folder for `kind`. `names`: what is in it, in its train/, and, unless
/// holds_set_itself(), in its inner_folders(). That of a folder ends with a slash: "a.bin",
/// "train/", "train/cat/". What the folder holds itself goes before what inner folders hold. Throws
/// DataError that begins with `folder`: no format is recognised (what was looked for, what
/// is there), it is of another kind, or there are several.
FolderChoice decide_format(const std::string& folder, const std::vector<std::string>& names,
                           DataKind kind);

/// Whether a data set for `kind` is in the folder itself, as decide_format() has its names.
bool holds_set_itself(const std::vector<std::string>& names, DataKind kind);

/// Where archives, torchvision and Keras put their files: "MNIST/raw".
std::vector<std::string> inner_folders();

}  // namespace ddprun::trainer
