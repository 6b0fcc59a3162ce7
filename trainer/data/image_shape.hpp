// Shapes of images as text: "28x28x1" has 28 rows, 28 columns and one channel.
#pragma once

#include <string>

#include "trainer/model/graph.hpp"

namespace ddprun::trainer {

inline constexpr int kGeneratedSideMax = 512;

/// Reads the shape of generated pictures: "64x96x3" has 64 rows, 96 columns and 3 channels. Sides
/// are at most kGeneratedSideMax, channels 1 or 3. Throws DataError.
ImageShape parse_image_shape(const std::string& text);

/// "28x28x1".
std::string to_string(ImageShape shape);

}  // namespace ddprun::trainer
