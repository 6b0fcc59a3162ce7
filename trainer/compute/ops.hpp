// Every element-wise formula of the trainer, once: the CPU's loops and the GPU's kernels compile
// these same functors. Storage may be float, half or bfloat16; the arithmetic is always float.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/compute/host_device.hpp"
#include "trainer/compute/numeric.hpp"
#include "trainer/compute/special_functions.hpp"
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

/// torch.nn.BCEWithLogitsLoss of one element with target t in [0, 1] and `positive_weight` w >= 0:
/// -w t ln sigmoid(x) - (1 - t) ln(1 - sigmoid(x)), computed as
/// w t softplus(-x) + (1 - t) softplus(x): no difference of large numbers, so it is precise
/// relative to the loss, and never overflows before the loss itself does. A logit that is not
/// finite gives a loss that is not, whatever the target.
struct BinaryCrossEntropy {
  float positive_weight;

  template <class T>
  DDPRUN_HOST_DEVICE float operator()(const T& logit, float target) const {
    const float x = load(logit);
    return positive_weight * target * softplus(-x) + (1.0F - target) * softplus(x);
  }
};

/// Its gradient by the logit times `factor`: (1 - t) sigmoid(x) - w t sigmoid(-x). Equal to
/// PyTorch's
/// ((w - 1) t + 1) sigmoid(x) - w t, but without the cancellation where the prediction is right.
struct BinaryCrossEntropyBackward {
  float positive_weight;
  float factor;  ///< loss scale / divisor of the mean

  template <class T>
  DDPRUN_HOST_DEVICE void operator()(T& gradient, const T& logit, float target) const {
    const float x = load(logit);
    const float slope = (1.0F - target) * sigmoid(x) - positive_weight * target * sigmoid(-x);
    store(gradient, slope * factor);
  }
};

/// Whether a pixel is predicted to belong to the mask: its probability is above 1/2. A nan is not.
template <class T>
DDPRUN_HOST_DEVICE inline bool predicts_mask(const T& logit) {
  return load(logit) > 0.0F;
}
/// Whether it does belong to the mask, for counting.
DDPRUN_HOST_DEVICE inline bool is_in_mask(float target) { return target >= 0.5F; }

}  // namespace ddprun::trainer
