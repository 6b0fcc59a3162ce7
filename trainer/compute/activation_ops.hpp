// Activations other than ReLU, in the style of ops.hpp: one text for the CPU's loops and the GPU's
// kernels, any storage type, arithmetic in float.
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

}  // namespace ddprun::trainer
