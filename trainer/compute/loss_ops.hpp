// Losses other than softmax cross-entropy, one element at a time, and the fixed-point form in which
// losses are summed.
#pragma once

#include <cmath>
#include <cstdint>

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

enum class LossRange {
  in_range,
  too_large,   ///< beyond +-2^38
  non_finite,  ///< inf or nan
};

/// A sample's loss in units of 2^-24. Sums of such units are exact, so they do not depend on the
/// order of the samples nor on the ranks that they were computed on. A sum fits in 64 bits while it
/// is below 2^39; the caller checks that.
struct RoundedLoss {
  std::int64_t units;  ///< 0 unless in range
  LossRange range;
};

inline constexpr double kLossUnit = 0x1p-24;
inline constexpr double kLargestLoss = 0x1p38;  ///< 2^62 units

/// To the nearest unit, ties to even. Double, so that a sample's loss may be a mean over pixels
/// summed in double; a float is the same number in double.
DDPRUN_HOST_DEVICE inline RoundedLoss round_loss(double loss) {
  const double size = std::fabs(loss);
  if (size <= kLargestLoss) {
    return {static_cast<std::int64_t>(std::rint(loss / kLossUnit)), LossRange::in_range};
  }
  const bool finite = loss - loss == 0.0;
  return {0, finite ? LossRange::too_large : LossRange::non_finite};
}

}  // namespace ddprun::trainer
