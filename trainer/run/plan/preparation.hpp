// What becomes of pictures between a data set and the network: which window of each is seen, and by
// which mean and deviation its values are normalised.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/compute/image_windows.hpp"
#include "trainer/data/data_set.hpp"
#include "trainer/run/cli/preparation_settings.hpp"

namespace ddprun::trainer {

class Preparation {
 public:
  /// Texts are not prepared. Throws DataError where a window is larger than the set's pictures with
  /// their padding, or where means are of another number of channels.
  Preparation(PreparationSettings settings, const DataSet& train);

  /// What the network sees; of texts zeros.
  [[nodiscard]] ImageShape shape() const { return shape_; }
  [[nodiscard]] const Normalization& normalization() const { return normalization_; }
  /// channels x 256: the normalised value of each byte.
  [[nodiscard]] std::span<const float> tables() const { return tables_; }

  /// False: the network sees each picture as it is stored.
  [[nodiscard]] bool has_windows() const { return settings_.crop || settings_.flip; }
  [[nodiscard]] const WindowSides& sides() const { return sides_; }
  /// The window of a sample of the training set: see draw_window().
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
