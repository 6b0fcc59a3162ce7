#include "trainer/host/host_loops.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "trainer/compute/ops.hpp"
#include "trainer/host/vector_clones.hpp"

namespace ddprun::trainer {

template <class T>
DDPRUN_TEMPLATE_CLONES void relu_forward(const T* input, T* output, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) Relu{}(output[i], input[i]);
}

template <class T>
DDPRUN_TEMPLATE_CLONES void relu_backward(const T* output_gradient, const T* output,
                                          T* input_gradient, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    ReluBackward{}(input_gradient[i], output_gradient[i], output[i]);
}

template <class T>
DDPRUN_TEMPLATE_CLONES void add(const T* a, const T* b, T* sum, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) Add{}(sum[i], a[i], b[i]);
}

DDPRUN_VECTOR_CLONES
void round_to_storage(Storage storage, std::span<const float> values, float* rounded) {
  const float* from = values.data();
  const std::size_t n = values.size();
  switch (storage) {
    case Storage::fp32:
      if (from != rounded) std::copy(from, from + n, rounded);
      break;
    case Storage::rounded_to_bf16:
      for (std::size_t i = 0; i < n; ++i) rounded[i] = round_to_bfloat16(from[i]);
      break;
    case Storage::rounded_to_fp16:
      for (std::size_t i = 0; i < n; ++i) rounded[i] = round_to_half(from[i]);
      break;
    case Storage::bf16:
    case Storage::fp16:
      throw std::logic_error("no storage of floats");
  }
}

DDPRUN_VECTOR_CLONES
void store_bfloat16(std::span<const float> values, BFloat16* to) {
  const float* from = values.data();
  for (std::size_t i = 0, n = values.size(); i < n; ++i) store(to[i], from[i]);
}

DDPRUN_VECTOR_CLONES
void load_bfloat16(const BFloat16* from, std::span<float> values) {
  float* to = values.data();
  for (std::size_t i = 0, n = values.size(); i < n; ++i) to[i] = load(from[i]);
}

template <class T>
DDPRUN_TEMPLATE_CLONES void softmax_cross_entropy(const T* logits, int classes,
                                                  std::span<const std::int32_t> labels,
                                                  std::int64_t place, Counters& counters) {
  for (std::size_t row = 0; row < labels.size(); ++row) {
    const std::size_t start = row * static_cast<std::size_t>(classes);
    const RowResult one =
        SoftmaxCrossEntropy{}(logits + start, classes, labels[row], 0.0F, static_cast<T*>(nullptr));
    count_loss(counters, static_cast<double>(one.loss), place + static_cast<std::int64_t>(row));
    counters.correct += one.correct ? 1 : 0;
  }
}

template <class T>
DDPRUN_TEMPLATE_CLONES void softmax_cross_entropy_backward(const T* logits, int classes,
                                                           std::span<const std::int32_t> labels,
                                                           float factor, T* gradient) {
  for (std::size_t row = 0; row < labels.size(); ++row) {
    const std::size_t start = row * static_cast<std::size_t>(classes);
    SoftmaxCrossEntropy{}(logits + start, classes, labels[row], factor, gradient + start);
  }
}

namespace {

template <class T>
DDPRUN_TEMPLATE_CLONES void pixel_losses(const T* logits, const float* targets, std::size_t count,
                                         float positive_weight, float* losses) {
  const BinaryCrossEntropy loss{positive_weight};
  for (std::size_t i = 0; i < count; ++i) losses[i] = loss(logits[i], targets[i]);
}

template <class T>
DDPRUN_TEMPLATE_CLONES void count_pixels(const T* logits, const float* targets, std::size_t count,
                                         Counters& counters) {
  std::int64_t both = 0;
  std::int64_t predicted = 0;
  std::int64_t wanted = 0;
  for (std::size_t i = 0; i < count; ++i) {
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

template <class T>
void binary_cross_entropy(const T* logits, const float* targets, std::size_t pixels,
                          std::size_t samples, float positive_weight, std::int64_t place,
                          Counters& counters) {
  std::array<float, 256> losses{};
  for (std::size_t sample = 0; sample < samples; ++sample) {
    double sum = 0;  // in the order of the pixels, whatever the width of the vectors
    for (std::size_t begin = 0; begin < pixels; begin += losses.size()) {
      const std::size_t count = std::min(losses.size(), pixels - begin);
      const std::size_t first = sample * pixels + begin;
      pixel_losses(logits + first, targets + first, count, positive_weight, losses.data());
      for (std::size_t i = 0; i < count; ++i) sum += static_cast<double>(losses[i]);
    }
    count_loss(counters, sum / static_cast<double>(pixels),
               place + static_cast<std::int64_t>(sample));
  }
  count_pixels(logits, targets, samples * pixels, counters);
}

template <class T>
DDPRUN_TEMPLATE_CLONES void binary_cross_entropy_backward(const T* logits, const float* targets,
                                                          std::size_t count, float positive_weight,
                                                          float factor, T* gradient) {
  const BinaryCrossEntropyBackward backward{positive_weight, factor};
  for (std::size_t i = 0; i < count; ++i) backward(gradient[i], logits[i], targets[i]);
}

#define DDPRUN_LOOPS_OF(T)                                                                        \
  template void relu_forward(const T*, T*, std::size_t);                                          \
  template void relu_backward(const T*, const T*, T*, std::size_t);                               \
  template void add(const T*, const T*, T*, std::size_t);                                         \
  template void softmax_cross_entropy(const T*, int, std::span<const std::int32_t>, std::int64_t, \
                                      Counters&);                                                 \
  template void softmax_cross_entropy_backward(const T*, int, std::span<const std::int32_t>,      \
                                               float, T*);                                        \
  template void binary_cross_entropy(const T*, const float*, std::size_t, std::size_t, float,     \
                                     std::int64_t, Counters&);                                    \
  template void binary_cross_entropy_backward(const T*, const float*, std::size_t, float, float,  \
                                              T*);
DDPRUN_LOOPS_OF(float)
DDPRUN_LOOPS_OF(BFloat16)
#undef DDPRUN_LOOPS_OF

DDPRUN_VECTOR_CLONES
bool any_non_finite(std::span<const float> values) {
  const float* from = values.data();
  std::uint32_t found = 0;
  for (std::size_t i = 0, n = values.size(); i < n; ++i) found |= is_non_finite(from[i]) ? 1U : 0U;
  return found != 0;
}

DDPRUN_VECTOR_CLONES
void sum_squares_by_lane(std::span<const float> block, std::span<double, kNormLanes> sums) {
  std::array<double, kNormLanes> lanes{};
  const float* row = block.data();
  const float* const end = row + block.size();
  for (; row + kNormLanes <= end; row += kNormLanes)
    for (std::size_t i = 0; i < kNormLanes; ++i)
      lanes[i] += static_cast<double>(row[i]) * static_cast<double>(row[i]);
  for (std::size_t i = 0; row + i < end; ++i)
    lanes[i] += static_cast<double>(row[i]) * static_cast<double>(row[i]);
  std::copy(lanes.begin(), lanes.end(), sums.begin());
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
