// The functors of text models as CUDA kernels, as in ops_kernels.cu: one row a thread.
#include <cstddef>

#include "trainer/compute/attention_ops.hpp"
#include "trainer/compute/layer_norm_ops.hpp"

namespace ddprun::trainer {
namespace {

__device__ std::size_t own_row() { return blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; }

}  // namespace

/// input, output: rows x channels of type T. weight, bias: channels. moments: rows.
template <class T>
__global__ void layer_norm_kernel(const T* input, const float* weight, const float* bias,
                                  std::size_t rows, std::size_t channels, T* output,
                                  RowMoments* moments) {
  const std::size_t row = own_row();
  if (row >= rows) return;
  const T* x = input + row * channels;
  const float count = static_cast<float>(channels);
  float sum = 0;
  for (std::size_t c = 0; c < channels; ++c) sum += load(x[c]);
  const float mean = sum / count;
  float squares = 0;
  for (std::size_t c = 0; c < channels; ++c) squares += (load(x[c]) - mean) * (load(x[c]) - mean);
  const LayerNorm norm{row_moments(mean, squares, count)};
  for (std::size_t c = 0; c < channels; ++c)
    norm(output[row * channels + c], x[c], weight[c], bias[c]);
  moments[row] = norm.moments;
}

/// Of the input alone. slopes: rows x channels, the gradient of the output.
template <class T>
__global__ void layer_norm_backward_kernel(const T* input, const T* slopes, const float* weight,
                                           const RowMoments* moments, std::size_t rows,
                                           std::size_t channels, T* gradient) {
  const std::size_t row = own_row();
  if (row >= rows) return;
  const std::size_t first = row * channels;
  const float count = static_cast<float>(channels);
  float slope_sum = 0;
  float product_sum = 0;
  for (std::size_t c = 0; c < channels; ++c) {
    const float slope = load(slopes[first + c]) * weight[c];
    slope_sum += slope;
    product_sum += slope * normalized(input[first + c], moments[row]);
  }
  const LayerNormBackward backward{moments[row], slope_sum / count, product_sum / count};
  for (std::size_t c = 0; c < channels; ++c)
    backward(gradient[first + c], slopes[first + c], input[first + c], weight[c]);
}

/// scores: rows x count, which become probabilities.
__global__ void softmax_kernel(float* scores, std::size_t rows, std::size_t count,
                               SoftmaxRow* saved) {
  const std::size_t row = own_row();
  if (row >= rows) return;
  float* x = scores + row * count;
  float largest = x[0];
  for (std::size_t i = 1; i < count; ++i) largest = x[i] > largest ? x[i] : largest;
  float sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += exponential(x[i] - largest);
  saved[row] = {largest, 1.0F / sum};
  for (std::size_t i = 0; i < count; ++i) x[i] = softmax_probability(x[i], saved[row]);
}

/// probabilities, factors, slopes: rows x count; slopes become those of the scores.
__global__ void softmax_backward_kernel(const float* probabilities, const float* factors,
                                        float* slopes, std::size_t rows, std::size_t count) {
  const std::size_t row = own_row();
  if (row >= rows) return;
  const std::size_t first = row * count;
  float sum = 0;
  for (std::size_t i = first; i < first + count; ++i)
    sum += slopes[i] * factors[i] * probabilities[i];
  for (std::size_t i = first; i < first + count; ++i)
    slopes[i] = softmax_gradient(probabilities[i], slopes[i], factors[i], sum);
}

#define DDPRUN_INSTANTIATE(T)                                                                      \
  template __global__ void layer_norm_kernel<T>(const T*, const float*, const float*, std::size_t, \
                                                std::size_t, T*, RowMoments*);                     \
  template __global__ void layer_norm_backward_kernel<T>(                                          \
      const T*, const T*, const float*, const RowMoments*, std::size_t, std::size_t, T*);
DDPRUN_INSTANTIATE(float)
DDPRUN_INSTANTIATE(Half)
DDPRUN_INSTANTIATE(BFloat16)
#undef DDPRUN_INSTANTIATE

}  // namespace ddprun::trainer
