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
  cifar_inside,   ///< the same, in a folder cifar-10-batches-bin
  tsv,            ///< train.tsv with dev.tsv or test.tsv (tsv.hpp)
  class_folders,  ///< train/CLASS/ with val/ or test/ (class_folders.hpp)
  mask_folders,   ///< images/ and masks/, in train/ or not (mask_folders.hpp)
};

/// The folder in which CIFAR-10's archive has its files.
inline constexpr const char* kCifarFolder = "cifar-10-batches-bin";

/// The format of a folder for `kind`. `names`: what is in it, and in the folders named in
/// kListedFolders. That of a folder ends with a slash: "a.bin", "train/", "train/cat/".
/// Throws DataError that begins with `folder`: no format is recognised (what was looked for, what
/// is there), it is of another kind, or there are several.
FolderFormat decide_format(const std::string& folder, const std::vector<std::string>& names,
                           DataKind kind);

/// Folders with names that take part in the decision.
inline constexpr const char* kListedFolders[] = {kCifarFolder, "train"};

}  // namespace ddprun::trainer
