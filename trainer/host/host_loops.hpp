// The CPU's loops over the functors of ops.hpp and optimizer_math.hpp: the only place where they
// meet vector units.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "trainer/compute/counters.hpp"
#include "trainer/compute/optimizer_math.hpp"
#include "trainer/compute/storage.hpp"

namespace ddprun::trainer {

// Spans of one call have equal sizes. Input and output may be the same memory.
void relu_forward(std::span<const float> input, std::span<float> output);
void relu_backward(std::span<const float> output_gradient, std::span<const float> output,
                   std::span<float> input_gradient);
void add(std::span<const float> a, std::span<const float> b, std::span<float> sum);

/// Rounds values to what the storage type can hold; it must be one of floats.
void round_to_storage(Storage storage, std::span<float> values);
void round_to_storage(Storage storage, std::span<const float> values, std::span<float> rounded);

/// Rows of `classes` logits, one for each label: adds their losses and hits to `counters`.
/// `place`: SamplePlace::number() of the first.
void softmax_cross_entropy(const float* logits, int classes, std::span<const std::int32_t> labels,
                           std::int64_t place, Counters& counters);
/// Writes (softmax - onehot) * factor.
void softmax_cross_entropy_backward(const float* logits, int classes,
                                    std::span<const std::int32_t> labels, float factor,
                                    float* gradient);

/// Samples of `pixels` logits each, and as many targets: adds their mean losses and their pixels to
/// `counters`. `place`: SamplePlace::number() of the first.
void binary_cross_entropy(const float* logits, const float* targets, std::size_t pixels,
                          std::size_t samples, float positive_weight, std::int64_t place,
                          Counters& counters);
/// Writes the slope of each logit times `factor`.
void binary_cross_entropy_backward(std::span<const float> logits, const float* targets,
                                   float positive_weight, float factor, float* gradient);

bool any_non_finite(std::span<const float> values);

/// running = 0.9 * running + 0.1 * (sum * share): PyTorch's momentum of running statistics.
void mix_statistic(std::span<float> running, std::span<const float> sum, float share);

void sgd_range(const OptimizerConfig& config, const UpdateScalars& scalars, float decay,
               std::span<float> parameters, std::span<const float> gradients, float* buffer);
void adamw_range(const UpdateScalars& scalars, float keep, std::span<float> parameters,
                 std::span<const float> gradients, float* first, float* second);

}  // namespace ddprun::trainer
