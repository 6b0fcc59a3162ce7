// One pass of one shape, as Convolutions keeps it. Of its sources alone.
#pragma once

#include <algorithm>
#include <array>
#include <optional>

#include "trainer/cuda/plugin/convolution_rows.hpp"
#include "trainer/cuda/plugin/convolutions.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace ddprun::trainer::cuda {

/// cuDNN's function for it.
const char* function_of(ConvolutionPass pass);

/// One pass of one shape: cuDNN's descriptors, and the algorithms that are used.
struct Convolutions::Prepared {
  explicit Prepared(const Cudnn& cudnn) : library(cudnn) {}
  ~Prepared() {
    for (cudnnTensorDescriptor_t tensor : {input, output})
      if (tensor != nullptr) (void)library.tensor_destroy(tensor);
    if (weight != nullptr) (void)library.filter_destroy(weight);
    if (convolution != nullptr) (void)library.convolution_destroy(convolution);
  }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  [[nodiscard]] bool is_weight_gradient() const { return pass == ConvolutionPass::weight_gradient; }
  [[nodiscard]] bool is_padded() const { return shape != computed; }
  [[nodiscard]] bool is_fp32() const { return shape.type == ElementType::fp32; }
  /// cuDNN writes a weight gradient in the type of the activations, and with padded channels.
  [[nodiscard]] bool has_temporary_weight() const {
    return is_weight_gradient() && (!is_fp32() || is_padded() || !algorithms[1]);
  }

  // Places in the workspace behind that of the algorithm, which is the first.
  [[nodiscard]] std::size_t input_place() const { return workspace; }
  [[nodiscard]] std::size_t output_place() const {
    return input_place() + (is_padded() ? bytes_of(input_rows(computed), shape.type) : 0);
  }
  [[nodiscard]] std::size_t weight_place() const {
    return output_place() + (is_padded() ? bytes_of(output_rows(computed), shape.type) : 0);
  }
  [[nodiscard]] std::size_t taken_out_place() const {
    const bool has_weight = is_padded() || has_temporary_weight();
    return weight_place() + (has_weight ? bytes_of(weight_rows(computed), shape.type) : 0);
  }
  [[nodiscard]] std::size_t bytes() const {
    const bool takes_out = is_weight_gradient() && is_padded();
    return taken_out_place() + (takes_out ? bytes_of(weight_rows(shape), shape.type) : 0);
  }

  const Cudnn& library;
  ConvolutionPass pass = ConvolutionPass::forward;
  ConvolutionShape shape;
  ConvolutionShape computed;  ///< padded, where cuDNN has no algorithm for the shape itself
  cudnnTensorDescriptor_t input = nullptr, output = nullptr;
  cudnnFilterDescriptor_t weight = nullptr;
  cudnnConvolutionDescriptor_t convolution = nullptr;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;  // as the descriptor has it
  /// Where the result is overwritten, and where it is added to what is there: a weight gradient of
  /// floats. Each has its own, so that what a shard gets does not depend on what was computed
  /// before.
  std::array<std::optional<Algorithm>, 2> algorithms{};
  std::size_t workspace = 0;  // of either of them
};

/// What one run reads and writes, of the shape that is computed.
struct Convolutions::Memory {
  void* input = nullptr;
  void* weight = nullptr;
  void* output = nullptr;
  std::byte* workspace = nullptr;
};

}  // namespace ddprun::trainer::cuda

#pragma GCC diagnostic pop
