// From the command line's --data to a pair of data sets.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "trainer/data/data_set.hpp"
#include "trainer/data/sentences.hpp"

namespace ddprun::trainer {

struct TrainAndTest {
  std::unique_ptr<DataSet> train;
  std::unique_ptr<DataSet> test;
};

/// The word that asks for the generated shapes or sentences.
inline constexpr const char* kGeneratedData = "generated";

/// Reads the shape of generated pictures: "64x96x3" has 64 rows, 96 columns and 3 channels. Sides
/// are at most kGeneratedSideMax, channels 1 or 3. Throws DataError.
ImageShape parse_image_shape(const std::string& text);
inline constexpr int kGeneratedSideMax = 512;

/// "28x28x1".
std::string to_string(ImageShape shape);

/// `data` is "generated" (drawn in `generated_shape`) or a folder with the files of an MNIST-like
/// set (idx.hpp). Throws DataError that names the file, or where the data has no such target. Both
/// sets have the same shape, classes and normalisation (the training set's).
///
/// `head`: outputs of the classifier if they are given. Labels of a folder are below it, in both
/// sets; else those of the held-out set are in the range of the training set's, which has two
/// classes or more. A label beyond is refused with its file and sample.
TrainAndTest load_data(const std::string& data, ImageShape generated_shape,
                       Target target = Target::label, std::optional<int> head = std::nullopt);

/// Bytes that the sets of load_data() come to hold, as far as that is known before anything is
/// read: all of generated pictures, of a folder those of the files that are not compressed.
std::uint64_t known_data_bytes(const std::string& data, ImageShape generated_shape,
                               Target target = Target::label);

/// What generated sentences are to be like.
struct SentenceSettings {
  int count = kSentences;        ///< for training; a quarter as many are held out
  int tokens = kSentenceTokens;  ///< the most of one
};

/// Texts: `data` is "generated" (sentences). Throws DataError for anything else.
TrainAndTest load_texts(const std::string& data, const SentenceSettings& settings);

/// Bytes that they are going to take, judged by the first thousand.
std::uint64_t expected_text_bytes(const SentenceSettings& settings);

}  // namespace ddprun::trainer
