// From the command line's --data to a pair of data sets, generated or read from a folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trainer/data/data_set.hpp"
#include "trainer/data/folder_format.hpp"
#include "trainer/data/image_files.hpp"
#include "trainer/data/sentences.hpp"
#include "trainer/data/train_and_test.hpp"
#include "trainer/data/tsv.hpp"

namespace ddprun::trainer {

/// Cracks with masks.
TrainAndTest generate_cracks(ImageShape shape);

/// Bytes that they are going to take.
std::uint64_t generated_crack_bytes(ImageShape shape);

/// Shapes, told apart by labels or found by masks.
TrainAndTest generate_shapes(ImageShape shape, Target target, int threads = 1);

/// Bytes that they are going to take.
std::uint64_t generated_shape_bytes(ImageShape shape, Target target);

/// What generated sentences are to be like.
struct SentenceSettings {
  int count = kSentences;        ///< for training; a quarter as many are held out
  int tokens = kSentenceTokens;  ///< the most of one
};

TrainAndTest generate_sentences(const SentenceSettings& settings);

/// Bytes that they are going to take, judged by the first thousand.
std::uint64_t generated_sentence_bytes(const SentenceSettings& settings);

/// The word that asks for the generated shapes or sentences.
inline constexpr const char* kGeneratedData = "generated";

/// The one that asks for generated cracks, which have masks.
inline constexpr const char* kGeneratedCracks = "generated-cracks";

struct DataRequest {
  std::string data = kGeneratedData;          ///< one of these words, or a folder
  DataKind kind = DataKind::labelled_images;  ///< what the model learns from
  /// Image files need all of it, generated pictures the shape and threads, other files memory and
  /// threads.
  ImageSettings images = {};
  /// What CIFAR-10's and MNIST-like images are resized to; none: they keep their own shape.
  std::optional<ImageShape> other_shape = std::nullopt;
  std::optional<int> head = std::nullopt;  ///< outputs of the classifier, if they are given
  SentenceSettings sentences = {};         ///< of generated texts
  TextSettings texts = {};                 ///< of files
};

/// Throws DataError that names the folder or the file, or where the data is not of that
/// kind. Both sets have the same shape, classes and normalisation (the training set's).
TrainAndTest load_data(const DataRequest& request);

/// Bytes that the sets of load_data() come to hold, as far as that is known before anything is
/// read: all of generated data and of images (of those that do not fit images.memory what they are
/// made from), but for MNIST-like files of their own size and TSV files, of which those that are
/// not compressed count.
std::uint64_t known_data_bytes(const DataRequest& request);

}  // namespace ddprun::trainer
