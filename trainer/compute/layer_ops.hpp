// Formulas of layers in the style of ops.hpp: one text for the CPU's loops and the GPU's kernels,
// any storage type, arithmetic in float. Activations other than ReLU; the bilinear enlarging;
// soft-max over a row of attention scores, and layer norm of a row, element by element: how a row
// is summed is each device's own, in a fixed order.
#pragma once

#include "trainer/compute/host_device.hpp"
#include "trainer/compute/numeric.hpp"
#include "trainer/compute/special_functions.hpp"

namespace ddprun::trainer {

/// The normal distribution's share below x, (1 + erf(x / sqrt 2)) / 2. Precise in absolute terms
/// (2^-23), as PyTorch's: 0 below -5.6.
DDPRUN_HOST_DEVICE inline float normal_share_below(float x) {
  return 0.5F * (1.0F + error_function(x * 0.707106781F));
}

/// x Phi(x), Phi the normal distribution: torch.nn.GELU's default, not its tanh approximation.
/// D. Hendrycks, K. Gimpel, arXiv 1606.08415. Of an inf: inf, of -inf: nan, as in PyTorch.
struct Gelu {
  template <class T>
  DDPRUN_HOST_DEVICE void operator()(T& output, const T& input) const {
    const float x = load(input);
    store(output, x * normal_share_below(x));
  }
};

/// Gradient of GELU by its *input*, Phi(x) + x phi(x): the output does not determine it, since GELU
/// falls before it rises.
struct GeluBackward {
  template <class T>
  DDPRUN_HOST_DEVICE void operator()(T& input_gradient, const T& output_gradient,
                                     const T& input) const {
    const float x = load(input);
    const float density = 0.398942280F * exponential(-0.5F * x * x);  // 1 / sqrt(2 pi)
    store(input_gradient, load(output_gradient) * (normal_share_below(x) + x * density));
  }
};

struct Tanh {
  template <class T>
  DDPRUN_HOST_DEVICE void operator()(T& output, const T& input) const {
    store(output, hyperbolic_tangent(load(input)));
  }
};

/// Gradient of tanh by its *output*: 1 - output^2.
struct TanhBackward {
  template <class T>
  DDPRUN_HOST_DEVICE void operator()(T& input_gradient, const T& output_gradient,
                                     const T& output) const {
    const float y = load(output);
    store(input_gradient, load(output_gradient) * (1.0F - y * y));
  }
};

/// Bilinear enlarging to twice the height and the width has half-pixel centres: PyTorch's
/// interpolate(scale_factor=2, mode="bilinear", align_corners=False). Rows and columns one after
/// the other, the rows first. The gradient is gathered by each input pixel, in a fixed order: no
/// sum depends on threads. These are the two input pixels of one direction that an output pixel is
/// mixed from.
struct UpsampleSource {
  int near;
  int far;
};

/// Output pixel o lies at (o + 1/2) / 2 - 1/2 of the input: a quarter of a pixel beside the middle
/// of pixel o / 2. Beyond an edge stands the pixel at the edge.
DDPRUN_HOST_DEVICE inline UpsampleSource upsample_source(int output, int inputs) {
  const int near = output / 2;
  const int far = output % 2 == 0 ? near - 1 : near + 1;
  return {near, far < 0 ? 0 : (far >= inputs ? inputs - 1 : far)};
}

DDPRUN_HOST_DEVICE inline float upsample_mix(float near, float far) {
  return 0.75F * near + 0.25F * far;
}

/// The four output pixels of one direction that read an input pixel: the outer ones as their far
/// pixel, the inner ones as their near one. An output pixel at an edge reads the same pixel as
/// both, and so stands here twice.
struct UpsampleReaders {
  int pixel[4];
};

DDPRUN_HOST_DEVICE inline UpsampleReaders upsample_readers(int input, int inputs) {
  const int first = 2 * input - 1;
  const int last = 2 * input + 2;
  return {{first < 0 ? 0 : first, 2 * input, 2 * input + 1,
           last >= 2 * inputs ? 2 * inputs - 1 : last}};
}

/// An input's gradient, from the gradients of its four readers in order.
DDPRUN_HOST_DEVICE inline float upsample_gather(float a, float b, float c, float d) {
  return 0.75F * (b + c) + 0.25F * (a + d);
}

/// What backward needs of one row of scores x to compute its probabilities again.
struct SoftmaxRow {
  float largest;     ///< max x
  float reciprocal;  ///< 1 / sum exp(x - largest)
};

/// The probability of one score.
DDPRUN_HOST_DEVICE inline float softmax_probability(float score, const SoftmaxRow& row) {
  return exponential(score - row.largest) * row.reciprocal;
}

/// The gradient of a score with probability p, of which the output read p * factor (its dropout):
/// p * (slope * factor - sum), where `slope` is the gradient of what was read and `sum` is that
/// of slope * factor * p over the row.
DDPRUN_HOST_DEVICE inline float softmax_gradient(float probability, float slope, float factor,
                                                 float sum) {
  return probability * (slope * factor - sum);
}

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
