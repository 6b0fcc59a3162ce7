// Losses other than softmax cross-entropy, one element at a time.
#pragma once

#include "trainer/compute/host_device.hpp"
#include "trainer/compute/numeric.hpp"
#include "trainer/compute/special_functions.hpp"

namespace ddprun::trainer {

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
