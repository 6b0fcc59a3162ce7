// How pictures are to be prepared for the network: the values of --crop, --flip and --normalize.
#pragma once

#include <optional>
#include <string>

#include "trainer/data/data_set.hpp"

namespace ddprun::trainer {

/// --crop. Training takes a window by chance, of a picture with `padding` rows and columns of zeros
/// on each side; evaluation takes the one in the middle, without padding.
struct Crop {
  int height = 0;
  int width = 0;
  int padding = 0;
};
/// "28", "24x32" or "32+4". Throws DataError.
Crop parse_crop(const std::string& text);
/// "28x28", "32x32+4".
std::string to_string(const Crop& crop);

/// --normalize.
struct Normalize {
  std::string text = "measured";        ///< as it was given
  std::optional<Normalization> values;  ///< none: the data set's own
};
/// "measured", "imagenet", "none" (0 and 1), or MEANS:STDS. Throws DataError.
Normalize parse_normalize(const std::string& text);
/// As MEANS:STDS.
std::string to_string(const Normalization& values);

struct PreparationSettings {
  std::optional<Crop> crop;
  bool flip = false;  ///< in training mirror each picture with a probability of 1/2
  Normalize normalize;
};

}  // namespace ddprun::trainer
