// Every element-wise formula of the trainer, once: the CPU's loops and the GPU's kernels compile
// these same functors. Storage may be float, half or bfloat16; the arithmetic is always float.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/compute/host_device.hpp"
#include "trainer/compute/numeric.hpp"
#include "trainer/compute/step_state.hpp"

namespace ddprun::trainer {

struct Relu {
  template <class T>
  DDPRUN_HOST_DEVICE void operator()(T& output, const T& input) const {
    const float x = load(input);
    store(output, x < 0.0F ? 0.0F : x);  // a nan passes, as in PyTorch
  }
};

/// Gradient of ReLU by its *output*: 0 where that is 0.
struct ReluBackward {
  template <class T>
  DDPRUN_HOST_DEVICE void operator()(T& input_gradient, const T& output_gradient,
                                     const T& output) const {
    const float gradient = load(output_gradient);
    store(input_gradient, load(output) <= 0.0F ? 0.0F : gradient);
  }
};

struct Add {
  template <class T>
  DDPRUN_HOST_DEVICE void operator()(T& sum, const T& a, const T& b) const {
    store(sum, load(a) + load(b));
  }
};

/// Master to shadow: the copy of a parameter that layers of half precision read.
struct CastShadow {
  template <class T>
  DDPRUN_HOST_DEVICE void operator()(T& shadow, float master) const {
    store(shadow, master);
  }
};

struct RowResult {
  float loss;
  bool correct;  ///< the first largest logit is the label's
};

/// Loss of one row of logits, -ln softmax(logits)[label], and its gradient (softmax - onehot) *
/// factor.
struct SoftmaxCrossEntropy {
  template <class T>
  DDPRUN_HOST_DEVICE RowResult operator()(const T* logits, int classes, int label, float factor,
                                          T* gradient) const {
    float largest = load(logits[0]);
    int best = 0;
    bool nan = largest != largest;
    for (int c = 1; c < classes; ++c) {
      const float x = load(logits[c]);
      nan = nan || x != x;
      if (x > largest) {
        largest = x;
        best = c;
      }
    }
    float sum = 0;
    for (int c = 0; c < classes; ++c) sum += exponential(load(logits[c]) - largest);
    if (gradient != nullptr) {
      for (int c = 0; c < classes; ++c) {
        const float probability = exponential(load(logits[c]) - largest) / sum;
        store(gradient[c], (probability - (c == label ? 1.0F : 0.0F)) * factor);
      }
    }
    return {natural_logarithm(sum) - (load(logits[label]) - largest), !nan && best == label};
  }
};

}  // namespace ddprun::trainer
