// What the U-Nets have in common: O. Ronneberger et al., "U-Net", 2015; the decoder's blocks and
// their names are those of "TernausNet" (V. Iglovikov, A. Shvets, 2018).
#pragma once

#include <string>

#include "trainer/model/graph.hpp"
#include "trainer/model/model_tables.hpp"

namespace ddprun::trainer {

inline constexpr Window kUnetConvolution{.size = 3, .stride = 1, .padding = 1};
/// Channels of the decoder's layers are multiples of it.
inline constexpr int kUnetFilters = 32;
inline constexpr Window kUnetPool{.size = 2, .stride = 2, .padding = 0};

/// 3x3 with a ReLU and PyTorch's default initial values.
int unet_convolution(Graph& graph, const std::string& name, int from, int channels);

/// Twice the height and the width: bilinear and two convolutions (NAME.block.1.conv to `middle`
/// channels, NAME.block.2.conv), or a convolution and a transposed one (NAME.block.0.conv,
/// NAME.block.1).
int unet_block(Graph& graph, Decoder decoder, const std::string& name, int from, int middle,
               int channels);

/// Throws DataError, which names the size that fits, where a side is no multiple of `divisor`.
void check_unet_sides(ImageShape image, int divisor, const std::string& model);

}  // namespace ddprun::trainer
