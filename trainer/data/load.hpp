// From the command line's --data to a pair of data sets.
#pragma once

#include <memory>
#include <string>

#include "trainer/data/data_set.hpp"

namespace ddprun::trainer {

struct TrainAndTest {
  std::unique_ptr<DataSet> train;
  std::unique_ptr<DataSet> test;
};

/// The word that asks for the generated shapes.
inline constexpr const char* kGeneratedData = "generated";

/// Reads "28x28x1" or "32x32x3". Throws DataError.
ImageShape parse_image_shape(const std::string& text);

/// "28x28x1".
std::string to_string(ImageShape shape);

/// `data` is "generated" (drawn in `generated_shape`) or a folder with the files of an MNIST-like
/// set. Throws DataError that names the file. Both sets have the same shape, classes and
/// normalisation (the training set's).
TrainAndTest load_data(const std::string& data, ImageShape generated_shape);

}  // namespace ddprun::trainer
