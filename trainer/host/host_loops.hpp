// The CPU's loops over the functors of ops.hpp and optimizer_math.hpp: the only place where they
// meet vector units.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "trainer/compute/counters.hpp"
#include "trainer/compute/gradient_norm.hpp"
#include "trainer/compute/numeric.hpp"
#include "trainer/compute/optimizer_math.hpp"

namespace ddprun::trainer {

// T: float or BFloat16, one type in each call. Input and output may be the same memory.
template <class T>
void relu_forward(const T* input, T* output, std::size_t count);
template <class T>
void relu_backward(const T* output_gradient, const T* output, T* input_gradient, std::size_t count);
template <class T>
void add(const T* a, const T* b, T* sum, std::size_t count);

/// Rounds values to what the storage type can hold; it must be one of floats. `values` and
/// `rounded` may be the same.
void round_to_storage(Storage storage, std::span<const float> values, float* rounded);
void store_bfloat16(std::span<const float> values, BFloat16* to);
void load_bfloat16(const BFloat16* from, std::span<float> values);

/// Rows of `classes` logits, one for each label: adds their losses and hits to `counters`.
/// `place`: SamplePlace::number() of the first.
template <class T>
void softmax_cross_entropy(const T* logits, int classes, std::span<const std::int32_t> labels,
                           std::int64_t place, Counters& counters);
/// Writes (softmax - onehot) * factor.
template <class T>
void softmax_cross_entropy_backward(const T* logits, int classes,
                                    std::span<const std::int32_t> labels, float factor,
                                    T* gradient);

/// Samples of `pixels` logits each, and as many targets: adds their mean losses and their pixels to
/// `counters`. `place`: SamplePlace::number() of the first.
template <class T>
void binary_cross_entropy(const T* logits, const float* targets, std::size_t pixels,
                          std::size_t samples, float positive_weight, std::int64_t place,
                          Counters& counters);
/// Writes the slope of each logit times `factor`.
template <class T>
void binary_cross_entropy_backward(const T* logits, const float* targets, std::size_t count,
                                   float positive_weight, float factor, T* gradient);

// Spans of one call have equal sizes.
bool any_non_finite(std::span<const float> values);

/// sum_squares() of each lane of a block.
void sum_squares_by_lane(std::span<const float> block, std::span<double, kNormLanes> sums);

/// running = 0.9 * running + 0.1 * (sum * share): PyTorch's momentum of running statistics.
void mix_statistic(std::span<float> running, std::span<const float> sum, float share);

void sgd_range(const OptimizerConfig& config, const UpdateScalars& scalars, float decay,
               std::span<float> parameters, std::span<const float> gradients, float* buffer);
void adamw_range(const UpdateScalars& scalars, float keep, std::span<float> parameters,
                 std::span<const float> gradients, float* first, float* second);

}  // namespace ddprun::trainer
