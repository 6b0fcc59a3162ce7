// The three tensors of a convolution as rows of channels, and copies with more channels than they
// have.
#pragma once

#include <cstddef>
#include <functional>

#include "trainer/cuda/gpu.hpp"

namespace ddprun::trainer::cuda {

/// Rows of channels, side by side.
struct Rows {
  std::size_t rows = 0;
  std::size_t channels = 0;
  [[nodiscard]] std::size_t count() const { return rows * channels; }
};
Rows input_rows(const ConvolutionShape& shape);
Rows output_rows(const ConvolutionShape& shape);
Rows weight_rows(const ConvolutionShape& shape);
/// Up to where the next part of a workspace may begin.
std::size_t bytes_of(const Rows& rows, ElementType type);

/// With so many further channels, of zeros, that cuDNN has algorithms for it.
ConvolutionShape padded(const ConvolutionShape& shape);

using LaunchFunction = std::function<void(const Launch&)>;

/// Copies `small` at `from` into the larger rows at `to`, with zeros around.
void pad(const LaunchFunction& launch, ElementType type, const void* from, const Rows& small,
         void* to, const Rows& large);
/// The other way.
void take_out(const LaunchFunction& launch, ElementType type, const void* from, const Rows& large,
              void* to, const Rows& small);

}  // namespace ddprun::trainer::cuda
