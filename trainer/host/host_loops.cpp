#include "trainer/host/host_loops.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "trainer/compute/loss_ops.hpp"
#include "trainer/compute/ops.hpp"
#include "trainer/host/vector_clones.hpp"

namespace ddprun::trainer {

DDPRUN_VECTOR_CLONES
void relu_forward(std::span<const float> input, std::span<float> output) {
  const float* from = input.data();
  float* to = output.data();
  for (std::size_t i = 0, n = output.size(); i < n; ++i) Relu{}(to[i], from[i]);
}

DDPRUN_VECTOR_CLONES
void relu_backward(std::span<const float> output_gradient, std::span<const float> output,
                   std::span<float> input_gradient) {
  const float* gradient = output_gradient.data();
  const float* mask = output.data();
  float* to = input_gradient.data();
  for (std::size_t i = 0, n = input_gradient.size(); i < n; ++i) {
    ReluBackward{}(to[i], gradient[i], mask[i]);
  }
}

DDPRUN_VECTOR_CLONES
void add(std::span<const float> a, std::span<const float> b, std::span<float> sum) {
  const float* left = a.data();
  const float* right = b.data();
  float* to = sum.data();
  for (std::size_t i = 0, n = sum.size(); i < n; ++i) Add{}(to[i], left[i], right[i]);
}

DDPRUN_VECTOR_CLONES
void round_to_storage(Storage storage, std::span<const float> values, std::span<float> rounded) {
  const float* from = values.data();
  float* to = rounded.data();
  const std::size_t n = rounded.size();
  switch (storage) {
    case Storage::fp32:
      if (from != to) std::copy(from, from + n, to);
      break;
    case Storage::rounded_to_bf16:
      for (std::size_t i = 0; i < n; ++i) to[i] = round_to_bfloat16(from[i]);
      break;
    case Storage::rounded_to_fp16:
      for (std::size_t i = 0; i < n; ++i) to[i] = round_to_half(from[i]);
      break;
    case Storage::bf16:
    case Storage::fp16:
      throw std::logic_error("no storage of floats");
  }
}

void round_to_storage(Storage storage, std::span<float> values) {
  if (storage != Storage::fp32) round_to_storage(storage, values, values);
}

DDPRUN_VECTOR_CLONES
void softmax_cross_entropy(const float* logits, int classes, std::span<const std::int32_t> labels,
                           std::int64_t place, Counters& counters) {
  for (std::size_t row = 0; row < labels.size(); ++row) {
    const std::size_t start = row * static_cast<std::size_t>(classes);
    const RowResult one = SoftmaxCrossEntropy{}(logits + start, classes, labels[row], 0.0F,
                                                static_cast<float*>(nullptr));
    count_loss(counters, static_cast<double>(one.loss), place + static_cast<std::int64_t>(row));
    counters.correct += one.correct ? 1 : 0;
  }
}

DDPRUN_VECTOR_CLONES
void softmax_cross_entropy_backward(const float* logits, int classes,
                                    std::span<const std::int32_t> labels, float factor,
                                    float* gradient) {
  for (std::size_t row = 0; row < labels.size(); ++row) {
    const std::size_t start = row * static_cast<std::size_t>(classes);
    SoftmaxCrossEntropy{}(logits + start, classes, labels[row], factor, gradient + start);
  }
}

namespace {

DDPRUN_VECTOR_CLONES
void pixel_losses(std::span<const float> logits, const float* targets, float positive_weight,
                  float* losses) {
  const BinaryCrossEntropy loss{positive_weight};
  for (std::size_t i = 0; i < logits.size(); ++i) losses[i] = loss(logits[i], targets[i]);
}

DDPRUN_VECTOR_CLONES
void count_pixels(std::span<const float> logits, const float* targets, Counters& counters) {
  std::int64_t both = 0;
  std::int64_t predicted = 0;
  std::int64_t wanted = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const bool predicts = predicts_mask(logits[i]);
    const bool wants = is_in_mask(targets[i]);
    both += predicts && wants ? 1 : 0;
    predicted += predicts ? 1 : 0;
    wanted += wants ? 1 : 0;
  }
  counters.true_positives += both;
  counters.false_positives += predicted - both;
  counters.false_negatives += wanted - both;
}

}  // namespace

void binary_cross_entropy(const float* logits, const float* targets, std::size_t pixels,
                          std::size_t samples, float positive_weight, std::int64_t place,
                          Counters& counters) {
  std::array<float, 256> losses{};
  for (std::size_t sample = 0; sample < samples; ++sample) {
    double sum = 0;  // in the order of the pixels, whatever the width of the vectors
    for (std::size_t begin = 0; begin < pixels; begin += losses.size()) {
      const std::size_t count = std::min(losses.size(), pixels - begin);
      const std::size_t first = sample * pixels + begin;
      pixel_losses({logits + first, count}, targets + first, positive_weight, losses.data());
      for (std::size_t i = 0; i < count; ++i) sum += static_cast<double>(losses[i]);
    }
    count_loss(counters, sum / static_cast<double>(pixels),
               place + static_cast<std::int64_t>(sample));
  }
  count_pixels({logits, samples * pixels}, targets, counters);
}

DDPRUN_VECTOR_CLONES
void binary_cross_entropy_backward(std::span<const float> logits, const float* targets,
                                   float positive_weight, float factor, float* gradient) {
  const BinaryCrossEntropyBackward backward{positive_weight, factor};
  for (std::size_t i = 0; i < logits.size(); ++i) backward(gradient[i], logits[i], targets[i]);
}

DDPRUN_VECTOR_CLONES
bool any_non_finite(std::span<const float> values) {
  const float* from = values.data();
  std::uint32_t found = 0;
  for (std::size_t i = 0, n = values.size(); i < n; ++i) found |= is_non_finite(from[i]) ? 1U : 0U;
  return found != 0;
}

DDPRUN_VECTOR_CLONES
void mix_statistic(std::span<float> running, std::span<const float> sum, float share) {
  for (std::size_t i = 0; i < running.size(); ++i) MixStatistic{share}(running[i], sum[i]);
}

DDPRUN_VECTOR_CLONES
void sgd_range(const OptimizerConfig& config, const UpdateScalars& scalars, float decay,
               std::span<float> parameters, std::span<const float> gradients, float* buffer) {
  const std::size_t n = parameters.size();
  float* parameter = parameters.data();
  const float* gradient = gradients.data();
  if (buffer == nullptr) {
    float unused = 0;
    const SgdUpdate<false, false> update{scalars, decay};
    for (std::size_t i = 0; i < n; ++i) update(parameter[i], gradient[i], unused);
  } else if (config.nesterov) {
    const SgdUpdate<true, true> update{scalars, decay};
    for (std::size_t i = 0; i < n; ++i) update(parameter[i], gradient[i], buffer[i]);
  } else {
    const SgdUpdate<true, false> update{scalars, decay};
    for (std::size_t i = 0; i < n; ++i) update(parameter[i], gradient[i], buffer[i]);
  }
}

DDPRUN_VECTOR_CLONES
void adamw_range(const UpdateScalars& scalars, float keep, std::span<float> parameters,
                 std::span<const float> gradients, float* first, float* second) {
  float* parameter = parameters.data();
  const float* gradient = gradients.data();
  const AdamWUpdate update{scalars, keep};
  for (std::size_t i = 0, n = parameters.size(); i < n; ++i) {
    update(parameter[i], gradient[i], first[i], second[i]);
  }
}

}  // namespace ddprun::trainer
