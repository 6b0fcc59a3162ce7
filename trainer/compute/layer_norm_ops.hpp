// Layer norm of one row, element by element; how a row is summed is each device's own, in a fixed
// order.
#pragma once

#include "trainer/compute/host_device.hpp"
#include "trainer/compute/numeric.hpp"
#include "trainer/compute/special_functions.hpp"

namespace ddprun::trainer {

inline constexpr float kLayerNormEpsilon = 1e-5F;  ///< PyTorch's

/// What normalizes one row of n values x.
struct RowMoments {
  float mean;        ///< sum x / n
  float reciprocal;  ///< 1 / sqrt(sum (x - mean)^2 / n + epsilon)
};

DDPRUN_HOST_DEVICE inline RowMoments row_moments(float mean, float squares, float count) {
  return {mean, reciprocal_square_root(squares / count + kLayerNormEpsilon)};
}

/// (x - mean) * reciprocal, with which both directions begin.
template <class T>
DDPRUN_HOST_DEVICE inline float normalized(const T& input, const RowMoments& moments) {
  return (load(input) - moments.mean) * moments.reciprocal;
}

struct LayerNorm {
  RowMoments moments;

  template <class T>
  DDPRUN_HOST_DEVICE void operator()(T& output, const T& input, float weight, float bias) const {
    store(output, normalized(input, moments) * weight + bias);
  }
};

/// With s = output gradient * weight and y the normalised values, the gradient of the input is
/// (s - mean s - y * mean (s y)) * reciprocal.
struct LayerNormBackward {
  RowMoments moments;
  float slope_mean;    ///< mean s
  float product_mean;  ///< mean (s y)

  template <class T>
  DDPRUN_HOST_DEVICE void operator()(T& input_gradient, const T& output_gradient, const T& input,
                                     float weight) const {
    const float slope = load(output_gradient) * weight;
    const float through = normalized(input, moments) * product_mean;
    store(input_gradient, (slope - slope_mean - through) * moments.reciprocal);
  }
};

}  // namespace ddprun::trainer
