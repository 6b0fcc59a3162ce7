// What becomes of pictures between a data set and the network: which window of each is seen, and by
// which mean and deviation its values are normalised.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/compute/image_windows.hpp"
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

class Preparation {
 public:
  /// Of texts nothing is prepared. Throws DataError where a window is larger than the set's
  /// pictures with their padding, or where means are of another number of channels.
  Preparation(PreparationSettings settings, const DataSet& train);

  /// What the network sees; of texts zeros.
  [[nodiscard]] ImageShape shape() const { return shape_; }
  [[nodiscard]] const Normalization& normalization() const { return normalization_; }
  /// channels x 256: the normalised value of each byte.
  [[nodiscard]] std::span<const float> tables() const { return tables_; }

  /// False: the network sees each picture as it is stored.
  [[nodiscard]] bool has_windows() const { return settings_.crop || settings_.flip; }
  [[nodiscard]] const WindowSides& sides() const { return sides_; }
  /// Of a sample of the training set: see draw_window().
  [[nodiscard]] ImageWindow window(std::uint64_t seed, std::uint64_t epoch,
                                   std::uint32_t sample) const;
  [[nodiscard]] ImageWindow held_out_window() const { return centre_window(sides_); }

 private:
  PreparationSettings settings_;
  ImageShape shape_;
  WindowSides sides_;
  Normalization normalization_;
  std::vector<float> tables_;
};

}  // namespace ddprun::trainer
