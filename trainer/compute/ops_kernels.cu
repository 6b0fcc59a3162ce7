// The functors as CUDA kernels, so that every build with nvcc proves that the same text compiles
// for the GPU. Compiled with contraction off, like the host's loops, so that both round alike.
#include <cstddef>
#include <cstdint>

#include "trainer/compute/activation_ops.hpp"
#include "trainer/compute/dropout_ops.hpp"
#include "trainer/compute/loss_ops.hpp"
#include "trainer/compute/ops.hpp"
#include "trainer/compute/optimizer_math.hpp"
#include "trainer/compute/philox.hpp"
#include "trainer/compute/upsample_ops.hpp"

namespace ddprun::trainer {
namespace {

/// First element and stride of a loop that covers any count with any launch size.
__device__ std::size_t first_element() {
  return blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
}
__device__ std::size_t all_threads() { return gridDim.x * std::size_t{blockDim.x}; }

/// The mask of the current step. A skipped step counts, so the next one gets another mask.
__device__ DropoutMask mask_of_step(const DropoutRate& rate, DropoutPlace place,
                                    const StepState& state) {
  place.step = state.updates + state.skipped;
  return DropoutMask(rate, place);
}

}  // namespace

// Storage type T: float, half, bfloat16. All arrays have `count` elements.
template <class T>
__global__ void relu_forward_kernel(const T* input, T* output, std::size_t count) {
  for (std::size_t i = first_element(); i < count; i += all_threads()) Relu{}(output[i], input[i]);
}

template <class T>
__global__ void relu_backward_kernel(const T* output_gradient, const T* output, T* input_gradient,
                                     std::size_t count) {
  for (std::size_t i = first_element(); i < count; i += all_threads()) {
    ReluBackward{}(input_gradient[i], output_gradient[i], output[i]);
  }
}

template <class T>
__global__ void add_kernel(const T* a, const T* b, T* sum, std::size_t count) {
  for (std::size_t i = first_element(); i < count; i += all_threads()) Add{}(sum[i], a[i], b[i]);
}

/// Gelu, Tanh.
template <class T, class Activation>
__global__ void activation_forward_kernel(Activation activation, const T* input, T* output,
                                          std::size_t count) {
  for (std::size_t i = first_element(); i < count; i += all_threads()) {
    activation(output[i], input[i]);
  }
}

/// `kept`: what the gradient is computed from, GELU's input or tanh's output.
template <class T, class Backward>
__global__ void activation_backward_kernel(Backward backward, const T* output_gradient,
                                           const T* kept, T* input_gradient, std::size_t count) {
  for (std::size_t i = first_element(); i < count; i += all_threads()) {
    backward(input_gradient[i], output_gradient[i], kept[i]);
  }
}

/// One thread four elements. `place.step` is read from the state.
template <class T>
__global__ void dropout_kernel(DropoutRate rate, DropoutPlace place, const StepState* state,
                               const T* input, T* output, std::size_t count) {
  const DropoutMask mask = mask_of_step(rate, place, *state);
  for (std::size_t block = first_element(); 4 * block < count; block += all_threads()) {
    const PhiloxBlock words = mask.words(static_cast<std::uint32_t>(block));
    for (std::size_t k = 0; k < 4 && 4 * block + k < count; ++k) {
      const std::size_t i = 4 * block + k;
      Dropout{}(output[i], input[i], mask.factor_of_word(words.word[k]));
    }
  }
}

/// 2-D dropout; input and output: images x pixels x channels.
template <class T>
__global__ void channel_dropout_kernel(DropoutRate rate, DropoutPlace place, const StepState* state,
                                       const T* input, T* output, std::size_t pixels,
                                       std::uint32_t channels, std::size_t count) {
  const DropoutMask mask = mask_of_step(rate, place, *state);
  for (std::size_t i = first_element(); i < count; i += all_threads()) {
    const std::uint64_t element = channel_element(
        i / (pixels * channels), static_cast<std::uint32_t>(i % channels), channels);
    Dropout{}(output[i], input[i], mask.factor(element));
  }
}

/// Sizes are those of the input; `count`: elements of all output images.
template <class T>
__global__ void upsample_kernel(int height_in, int width_in, std::size_t channels, const T* input,
                                T* output, std::size_t count) {
  const auto width = static_cast<std::size_t>(width_in);
  const auto height = static_cast<std::size_t>(height_in);
  for (std::size_t i = first_element(); i < count; i += all_threads()) {
    const std::size_t pixel = i / channels;
    const T* const image = input + pixel / (4 * width * height) * width * height * channels;
    const UpsampleSource rows =
        upsample_source(static_cast<int>(pixel / (2 * width) % (2 * height)), height_in);
    const UpsampleSource columns = upsample_source(static_cast<int>(pixel % (2 * width)), width_in);
    const auto at = [&](int row, int column) {
      const std::size_t from =
          static_cast<std::size_t>(row) * width + static_cast<std::size_t>(column);
      return load(image[from * channels + i % channels]);
    };
    store(output[i],
          upsample_mix(upsample_mix(at(rows.near, columns.near), at(rows.far, columns.near)),
                       upsample_mix(at(rows.near, columns.far), at(rows.far, columns.far))));
  }
}

/// `count`: elements of all input images.
template <class T>
__global__ void upsample_backward_kernel(int height_in, int width_in, std::size_t channels,
                                         const T* output_gradient, T* input_gradient,
                                         std::size_t count) {
  const auto width = static_cast<std::size_t>(width_in);
  const auto height = static_cast<std::size_t>(height_in);
  for (std::size_t i = first_element(); i < count; i += all_threads()) {
    const std::size_t pixel = i / channels;
    const T* const image =
        output_gradient + pixel / (width * height) * 4 * width * height * channels;
    const UpsampleReaders rows =
        upsample_readers(static_cast<int>(pixel / width % height), height_in);
    const UpsampleReaders columns = upsample_readers(static_cast<int>(pixel % width), width_in);
    float mixed[4];  // each column's rows
    for (int k = 0; k < 4; ++k) {
      const auto at = [&](int row) {
        const std::size_t from =
            static_cast<std::size_t>(row) * 2 * width + static_cast<std::size_t>(columns.pixel[k]);
        return load(image[from * channels + i % channels]);
      };
      mixed[k] = upsample_gather(at(rows.pixel[0]), at(rows.pixel[1]), at(rows.pixel[2]),
                                 at(rows.pixel[3]));
    }
    store(input_gradient[i], upsample_gather(mixed[0], mixed[1], mixed[2], mixed[3]));
  }
}

template <class T>
__global__ void cast_shadow_kernel(const float* master, T* shadow, std::size_t count) {
  for (std::size_t i = first_element(); i < count; i += all_threads()) {
    CastShadow{}(shadow[i], master[i]);
  }
}

/// One thread a row; logits and gradient: rows x classes. The loss scale is read here, not by the
/// host.
template <class T>
__global__ void softmax_cross_entropy_kernel(const T* logits, int classes,
                                             const std::int32_t* labels, const StepState* state,
                                             float divisor, T* gradient, RowResult* results,
                                             std::size_t rows) {
  const float factor = state->scaler.scale / divisor;
  for (std::size_t row = first_element(); row < rows; row += all_threads()) {
    const std::size_t start = row * static_cast<std::size_t>(classes);
    results[row] = SoftmaxCrossEntropy{}(logits + start, classes, labels[row], factor,
                                         gradient == nullptr ? nullptr : gradient + start);
  }
}

/// The loss of each element; `targets` in [0, 1].
template <class T>
__global__ void binary_cross_entropy_kernel(BinaryCrossEntropy loss, const T* logits,
                                            const float* targets, float* losses,
                                            std::size_t count) {
  for (std::size_t i = first_element(); i < count; i += all_threads()) {
    losses[i] = loss(logits[i], targets[i]);
  }
}

template <class T>
__global__ void binary_cross_entropy_backward_kernel(float positive_weight, const StepState* state,
                                                     float divisor, const T* logits,
                                                     const float* targets, T* gradient,
                                                     std::size_t count) {
  const BinaryCrossEntropyBackward backward{positive_weight, state->scaler.scale / divisor};
  for (std::size_t i = first_element(); i < count; i += all_threads()) {
    backward(gradient[i], logits[i], targets[i]);
  }
}

__global__ void check_kernel(const float* gradients, StepState* state, std::size_t count) {
  for (std::size_t i = first_element(); i < count; i += all_threads()) {
    if (is_non_finite(gradients[i])) state->found_inf = 1;  // all writers write the same
  }
}

/// One parameter's range; `buffer` may be null if there is no momentum.
template <bool kMomentum, bool kNesterov>
__global__ void sgd_kernel(OptimizerConfig config, const StepState* state, float decay,
                           float* parameters, const float* gradients, float* buffer,
                           std::size_t count) {
  if (state->found_inf != 0) return;
  const SgdUpdate<kMomentum, kNesterov> update{update_scalars(config, *state), decay};
  float unused = 0;
  for (std::size_t i = first_element(); i < count; i += all_threads()) {
    update(parameters[i], gradients[i], kMomentum ? buffer[i] : unused);
  }
}

__global__ void adamw_kernel(OptimizerConfig config, const StepState* state, double decay,
                             float* parameters, const float* gradients, float* first, float* second,
                             std::size_t count) {
  if (state->found_inf != 0) return;
  const UpdateScalars scalars = update_scalars(config, *state);
  const AdamWUpdate update{scalars, keep_factor(scalars.learning_rate, decay)};
  for (std::size_t i = first_element(); i < count; i += all_threads()) {
    update(parameters[i], gradients[i], first[i], second[i]);
  }
}

__global__ void finish_step_kernel(ScalerConfig config, StepState* state) {
  finish_step(config, *state);
}

/// words: 4 x count, the Philox blocks of counters 0 .. count - 1.
__global__ void philox_kernel(std::uint32_t key0, std::uint32_t key1, std::uint32_t* words,
                              std::size_t count) {
  for (std::size_t i = first_element(); i < count; i += all_threads()) {
    const PhiloxBlock block = philox(
        {{static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), 0, 0}}, key0, key1);
    for (int k = 0; k < 4; ++k) words[4 * i + k] = block.word[k];
  }
}

#define DDPRUN_INSTANTIATE(T)                                                                      \
  template __global__ void relu_forward_kernel<T>(const T*, T*, std::size_t);                      \
  template __global__ void relu_backward_kernel<T>(const T*, const T*, T*, std::size_t);           \
  template __global__ void activation_forward_kernel<T, Gelu>(Gelu, const T*, T*, std::size_t);    \
  template __global__ void activation_forward_kernel<T, Tanh>(Tanh, const T*, T*, std::size_t);    \
  template __global__ void activation_backward_kernel<T, GeluBackward>(GeluBackward, const T*,     \
                                                                       const T*, T*, std::size_t); \
  template __global__ void activation_backward_kernel<T, TanhBackward>(TanhBackward, const T*,     \
                                                                       const T*, T*, std::size_t); \
  template __global__ void dropout_kernel<T>(DropoutRate, DropoutPlace, const StepState*,          \
                                             const T*, T*, std::size_t);                           \
  template __global__ void channel_dropout_kernel<T>(DropoutRate, DropoutPlace, const StepState*,  \
                                                     const T*, T*, std::size_t, std::uint32_t,     \
                                                     std::size_t);                                 \
  template __global__ void binary_cross_entropy_kernel<T>(BinaryCrossEntropy, const T*,            \
                                                          const float*, float*, std::size_t);      \
  template __global__ void binary_cross_entropy_backward_kernel<T>(                                \
      float, const StepState*, float, const T*, const float*, T*, std::size_t);                    \
  template __global__ void upsample_kernel<T>(int, int, std::size_t, const T*, T*, std::size_t);   \
  template __global__ void upsample_backward_kernel<T>(int, int, std::size_t, const T*, T*,        \
                                                       std::size_t);                               \
  template __global__ void add_kernel<T>(const T*, const T*, T*, std::size_t);                     \
  template __global__ void cast_shadow_kernel<T>(const float*, T*, std::size_t);                   \
  template __global__ void softmax_cross_entropy_kernel<T>(                                        \
      const T*, int, const std::int32_t*, const StepState*, float, T*, RowResult*, std::size_t);
DDPRUN_INSTANTIATE(float)
DDPRUN_INSTANTIATE(Half)
DDPRUN_INSTANTIATE(BFloat16)
#undef DDPRUN_INSTANTIATE

template __global__ void sgd_kernel<false, false>(OptimizerConfig, const StepState*, float, float*,
                                                  const float*, float*, std::size_t);
template __global__ void sgd_kernel<true, false>(OptimizerConfig, const StepState*, float, float*,
                                                 const float*, float*, std::size_t);
template __global__ void sgd_kernel<true, true>(OptimizerConfig, const StepState*, float, float*,
                                                const float*, float*, std::size_t);

}  // namespace ddprun::trainer
