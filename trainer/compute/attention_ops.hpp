// Soft-max over a row of attention scores, element by element; how a row is summed is each device's
// own, in a fixed order.
#pragma once

#include "trainer/compute/host_device.hpp"
#include "trainer/compute/numeric.hpp"

namespace ddprun::trainer {

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

}  // namespace ddprun::trainer
