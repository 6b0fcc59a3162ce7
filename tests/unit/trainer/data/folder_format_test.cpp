// The format of a folder follows from the names in it and from what the model learns.
#include "trainer/data/folder_format.hpp"

#include <catch2/catch.hpp>

#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Names = std::vector<std::string>;
constexpr DataKind kLabels = DataKind::labelled_images;
constexpr DataKind kMasks = DataKind::masked_images;
constexpr DataKind kTexts = DataKind::texts;

FolderFormat decide(const Names& names, DataKind kind = kLabels) {
  const FolderChoice choice = decide_format("set", names, kind);
  CHECK(choice.inner.empty());
  return choice.format;
}

TEST_CASE("one file of a format is enough to recognise it") {
  for (const char* name :
       {"train-images-idx3-ubyte", "t10k-labels.idx1-ubyte.gz", "train-masks-idx3-ubyte"}) {
    CHECK(decide({"README", name}) == FolderFormat::idx);
    CHECK(decide({"README", name}, kMasks) == FolderFormat::idx);
  }
  for (const char* name : {"data_batch_1.bin", "data_batch_5.bin", "test_batch.bin"}) {
    CHECK(decide({"batches.meta.txt", name}) == FolderFormat::cifar);
  }
}

TEST_CASE("files in a folder that an archive, torchvision or Keras has made are found there") {
  const auto inner = [](const Names& names, DataKind kind = kLabels) {
    return decide_format("set", names, kind);
  };
  CHECK(inner({"cifar-10-batches-bin/", "cifar-10-batches-bin/test_batch.bin"}) ==
        FolderChoice{FolderFormat::cifar, "cifar-10-batches-bin"});
  for (const std::string folder : {"MNIST/raw", "FashionMNIST/raw", "raw", "fashion-mnist"}) {
    CHECK(inner({"notes.txt", folder + "/t10k-images-idx3-ubyte.gz"}) ==
          FolderChoice{FolderFormat::idx, folder});
  }
  CHECK_THROWS_WITH(
      inner({"MNIST/raw/train-images-idx3-ubyte", "cifar-10-batches-bin/test_batch.bin"}),
      EndsWith("set holds MNIST-like files in MNIST/raw and CIFAR-10's binary files "
               "in cifar-10-batches-bin: give one of them, such as "
               "--data=set/cifar-10-batches-bin"));
  CHECK_THROWS_WITH(
      inner({"MNIST/raw/train-images-idx3-ubyte"}, kTexts),
      Contains("set holds MNIST-like files in MNIST/raw, but this model reads texts"));
}

TEST_CASE("a folder's own files go before those of folders in it") {
  const std::string file = "train-images-idx3-ubyte";
  CHECK(decide({file, "raw/" + file}) == FolderFormat::idx);
  CHECK(decide({"cifar-10-batches-bin/test_batch.bin", file, "mnist/" + file}) ==
        FolderFormat::idx);
  CHECK(decide({"raw/" + file, "train/", "train/cat/"}) == FolderFormat::class_folders);
  // Which this model cannot use.
  CHECK(decide_format("set", {"mnist/" + file, "train.tsv"}, kLabels).inner == "mnist");
  CHECK(holds_set_itself({"train/", "train/cat/"}, kLabels));
  CHECK_FALSE(holds_set_itself({"train.tsv"}, kLabels));
  CHECK_FALSE(holds_set_itself({"raw/" + file}, kLabels));
}

TEST_CASE("files that are not in a form to be read are named, with what to do") {
  for (const char* const name : {"cifar-10-batches-py/", "data_batch_1"})
    CHECK_THROWS_WITH(decide({name, "x"}), Contains(std::string("set: ") + name) &&
                                               Contains("download its binary version"));
  CHECK_THROWS_WITH(decide({"EMNIST/raw/emnist-letters-train-images-idx3-ubyte.gz"}),
                    Contains("is a file of EMNIST: put the four files of one split into a folder"));
  CHECK_THROWS_WITH(decide({"QMNIST/raw/qmnist-train-labels-idx2-int.gz"}),
                    Contains("is a file of QMNIST, whose labels have eight columns: put the images "
                             "into a folder of their own"));
  CHECK_THROWS_WITH(decide({"cifar-10-python.tar.gz"}),
                    EndsWith("cifar-10-python.tar.gz is of CIFAR-10's Python version: download its "
                             "binary version (https://www.cs.toronto.edu/~kriz/"
                             "cifar-10-binary.tar.gz) and unpack that there"));
  CHECK_THROWS_WITH(decide({"cifar-10-binary.tar.gz", "cifar-10-python.tar.gz"}),
                    Contains("tar -xf set/cifar-10-binary.tar.gz"));
  CHECK_THROWS_WITH(decide({"mnist.npz"}), Contains("mnist.npz is an archive of NumPy"));
  CHECK_THROWS_WITH(decide({"cifar-10-binary.tar.gz"}),
                    EndsWith("cifar-10-binary.tar.gz is not unpacked: tar -xf "
                             "set/cifar-10-binary.tar.gz -C set"));
  CHECK_THROWS_WITH(decide({"my data.zip"}, kMasks),
                    EndsWith("my data.zip is not unpacked: unzip 'set/my data.zip' -d set"));
}

TEST_CASE("train.tsv makes a folder one of texts, whatever else is in it") {
  CHECK(decide({"dev.tsv", "test.tsv", "train.tsv"}, kTexts) == FolderFormat::tsv);
  CHECK(decide({"test_batch.bin", "train.tsv"}, kTexts) == FolderFormat::tsv);
  CHECK_THROWS_WITH(decide({"dev.tsv"}, kTexts),
                    EndsWith("set: dev.tsv has held-out data, but there is no train.tsv to train "
                             "on beside it (--eval needs it, too): add it"));
  CHECK_THROWS_WITH(decide({"dev.tsv"}), EndsWith("; it holds dev.tsv"));
}

TEST_CASE("folders of classes, and of images with masks") {
  CHECK(decide({"test/", "train/", "train/cat/", "train/x.png"}) == FolderFormat::class_folders);
  CHECK(decide({"images/", "test/", "train/", "train/cat/"}) == FolderFormat::class_folders);
  for (const Names& names :
       {Names{"images/", "masks/"}, Names{"masks/"}, Names{"train/", "train/images/"}})
    CHECK(decide(names, kMasks) == FolderFormat::mask_folders);
  CHECK_THROWS_WITH(
      decide({"train/", "train/x.png"}),
      Contains("train/ has no folder in it: put the images of each class into train/CLASS/"));
  CHECK_THROWS_WITH(decide({"train/", "train/images/", "train/masks/", "train/masks_png/"}),
                    Contains("set holds images with masks, but this model learns labels"));
  CHECK_THROWS_WITH(decide({"train/", "train/cat/"}, kMasks),
                    Contains("set holds folders of classes, but this model learns masks"));
}

TEST_CASE("a folder with held-out data alone is told what is missing") {
  CHECK_THROWS_WITH(decide({"val/", "val/dog/"}),
                    EndsWith("set: val/ has held-out data, but there is no train/ to train on "
                             "beside it (--eval needs it, too): add it"));
}

TEST_CASE("an empty train/ is told of, with what belongs there") {
  CHECK_THROWS_WITH(decide({"train/", "val/"}),
                    EndsWith("set: train/ is empty: put the images of each class into "
                             "train/CLASS/, held-out ones into val/CLASS/"));
  CHECK_THROWS_WITH(decide({"train/"}, kMasks),
                    EndsWith("set: train/ is empty: put images into train/images/ and their masks "
                             "into train/masks/, held-out ones into val/"));
  CHECK_THROWS_WITH(decide({"train/"}, kTexts), EndsWith("it holds train/"));
}

TEST_CASE("a folder without a data set is told what was looked for and what it holds") {
  CHECK_THROWS_WITH(decide({}), EndsWith("; it is empty"));
  CHECK_THROWS_WITH(decide({"a.txt", "b/", "b/c"}),
                    Contains("set: no data for a model that learns labels of images: looked for "
                             "train-images-idx3-ubyte (MNIST-like)") &&
                        Contains("data_batch_1.bin (CIFAR-10)") &&
                        EndsWith("; it holds a.txt and b/"));
  CHECK_THROWS_WITH(decide({"data_batch_x", "train-images.png"}),
                    EndsWith("it holds data_batch_x and train-images.png"));
  CHECK_THROWS_WITH(decide({"1", "2", "3", "4", "5", "6", "7", "8", "9", "x"}),
                    EndsWith("it holds 1, 2, 3, 4, 5, 6, 7, 8 and 2 more"));
  CHECK_THROWS_WITH(decide({"a\nb"}), EndsWith("it holds a\\nb"));
}

TEST_CASE("a data set for other models is named") {
  CHECK_THROWS_WITH(decide({"test_batch.bin"}, kMasks),
                    Contains("set holds CIFAR-10's binary files, but this model learns masks: use "
                             "another --model"));
}

TEST_CASE("two data sets in one folder are refused") {
  CHECK_THROWS_WITH(decide({"test_batch.bin", "train-images-idx3-ubyte"}),
                    Contains("set holds MNIST-like files and CIFAR-10's binary files: put each "
                             "into a folder of its own"));
  // The model can use one of them.
  CHECK(decide({"test_batch.bin", "train-masks-idx3-ubyte"}, kMasks) == FolderFormat::idx);
}

}  // namespace
}  // namespace ddprun::trainer
