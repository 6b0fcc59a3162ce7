// --image-shape: "28x28x1" has 28 rows, 28 columns and one channel.
#pragma once

#include <string>

#include "trainer/model/graph.hpp"

namespace ddprun::trainer {

inline constexpr int kShapeSideMax = 512;

/// Sides are at most kShapeSideMax, channels 1 or 3. Throws DataError.
ImageShape parse_image_shape(const std::string& text);

}  // namespace ddprun::trainer
