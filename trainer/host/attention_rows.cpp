#include "trainer/host/attention_rows.hpp"

#include <algorithm>
#include <limits>

#include "base/rounded_up.hpp"
#include "trainer/host/float_lanes.hpp"

namespace ddprun::trainer {
DDPRUN_VECTOR_CLONES
void softmax_rows(const ScoreRows& scores, SoftmaxRow* saved) {
  const std::size_t whole = rounded_up(scores.count, kFloatLanes);
  for (std::size_t row = 0; row < scores.rows; ++row) {
    float* const x = scores.at + row * scores.stride;
    // Padding has the probability 0.
    std::fill(x + scores.count, x + whole, -std::numeric_limits<float>::infinity());
    FloatLanes most;
    FloatLanes values;
    load_lanes(most, x, kFloatLanes);
    for (std::size_t i = kFloatLanes; i < whole; i += kFloatLanes) {
      load_lanes(values, x + i, kFloatLanes);
      most = values > most ? values : most;
    }
    float largest = most[0];
    for (std::size_t i = 1; i < kFloatLanes; ++i) largest = most[i] > largest ? most[i] : largest;
    for (std::size_t i = 0; i < whole; ++i) x[i] = exponential(x[i] - largest);
    FloatLanes sums{};
    for (std::size_t i = 0; i < whole; i += kFloatLanes) {
      load_lanes(values, x + i, kFloatLanes);
      sums += values;
    }
    const float reciprocal = 1.0F / sum_lanes(sums);
    for (std::size_t i = 0; i < whole; ++i) x[i] *= reciprocal;
    saved[row] = {largest, reciprocal};
  }
}

DDPRUN_VECTOR_CLONES
void softmax_rows_again(const ScoreRows& scores, const SoftmaxRow* saved) {
  for (std::size_t row = 0; row < scores.rows; ++row) {
    float* const x = scores.at + row * scores.stride;
    const SoftmaxRow own = saved[row];
    for (std::size_t i = 0; i < scores.count; ++i) x[i] = softmax_probability(x[i], own);
  }
}

DDPRUN_VECTOR_CLONES
void drop_row(std::size_t count, const float* __restrict factors, float* probabilities) {
  for (std::size_t i = 0; i < count; ++i) probabilities[i] *= factors[i];
}

DDPRUN_VECTOR_CLONES
void softmax_row_backward(std::size_t count, const float* factors, float* __restrict probabilities,
                          float* __restrict slopes) {
  const std::size_t whole = rounded_up(count, kFloatLanes);
  std::fill(probabilities + count, probabilities + whole, 0.0F);
  std::fill(slopes + count, slopes + whole, 0.0F);
  FloatLanes sums{};
  for (std::size_t i = 0; i < whole; i += kFloatLanes) {
    FloatLanes p;
    FloatLanes slope;
    load_lanes(p, probabilities + i, kFloatLanes);
    load_lanes(slope, slopes + i, kFloatLanes);
    if (factors != nullptr) {
      FloatLanes factor;
      load_lanes(factor, factors + i, kFloatLanes);
      slope *= factor;
    }
    sums += slope * p;
  }
  const float sum = sum_lanes(sums);
  if (factors == nullptr) {
    for (std::size_t i = 0; i < count; ++i)
      slopes[i] = softmax_gradient(probabilities[i], slopes[i], 1.0F, sum);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    slopes[i] = softmax_gradient(probabilities[i], slopes[i], factors[i], sum);
    probabilities[i] *= factors[i];
  }
}

}  // namespace ddprun::trainer
