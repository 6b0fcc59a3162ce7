// The residual blocks of ResNets in torchvision's names and initial values: K. He et al., "Deep
// residual learning for image recognition", 2015.
#pragma once

#include <array>

#include "trainer/model/graph.hpp"

namespace ddprun::trainer {

enum class ResidualBlock {
  basic,       ///< two 3x3 convolutions: ResNet-18 and -34
  bottleneck,  ///< 1x1, 3x3 (which has the stride), 1x1 to four times the channels: ResNet-50 on
};

/// A convolution without bias that keeps the size (but for the stride), with He's initial values.
layer::Convolution residual_convolution(int size, int stride);

/// layer1 to layer4: stage s has blocks[s] blocks of 64 * 2^s channels (times four for
/// bottlenecks), and each stage but the first halves height and width. Gives the last layer of each
/// stage.
std::array<int, 4> residual_stages(Graph& graph, int from, ResidualBlock kind,
                                   const std::array<int, 4>& blocks);

}  // namespace ddprun::trainer
