// Layer norm in our own loops. Rows have nothing in common; the gradients of weight and bias are
// summed over the rows of each sample, then over the samples, so that no bit depends on threads.
#include <algorithm>
#include <cstddef>

#include "trainer/compute/layer_ops.hpp"
#include "trainer/host/float_lanes.hpp"
#include "trainer/host/operations.hpp"
#include "trainer/host/thread_count.hpp"

namespace ddprun::trainer {
namespace {

struct Rows {
  std::size_t count;
  std::size_t channels;
};

template <class T>
DDPRUN_TEMPLATE_CLONES void normalize(const Rows& rows, const T* input, const float* weight,
                                      const float* bias, T* output, RowMoments* moments) {
  const std::size_t n = rows.channels;
  const auto count = static_cast<float>(n);
  for (std::size_t row = 0; row < rows.count; ++row, input += n, output += n) {
    FloatLanes sums{};
    FloatLanes values;
    for (std::size_t c = 0; c < n; c += kFloatLanes) {
      load_lanes(values, input + c, n - c);
      sums += values;
    }
    const float mean = sum_lanes(sums) / count;
    FloatLanes squares{};
    for (std::size_t c = 0; c < n; c += kFloatLanes) {
      load_lanes(values, input + c, n - c, mean);
      values -= mean;
      squares += values * values;
    }
    const LayerNorm norm{row_moments(mean, sum_lanes(squares), count)};
    for (std::size_t c = 0; c < n; ++c) norm(output[c], input[c], weight[c], bias[c]);
    if (moments != nullptr) moments[row] = norm.moments;
  }
}

/// Where the gradients of some rows go.
template <class T>
struct Gradients {
  T* input;
  float* weight;
  float* bias;
};

template <class T>
DDPRUN_TEMPLATE_CLONES void backward_rows(const Rows& rows, const T* input, const T* slopes,
                                          const float* weight, const RowMoments* moments,
                                          const Gradients<T>& to) {
  const std::size_t n = rows.channels;
  const auto count = static_cast<float>(n);
  float* __restrict const weight_sum = to.weight;
  float* __restrict const bias_sum = to.bias;
  std::fill_n(weight_sum, n, 0.0F);
  std::fill_n(bias_sum, n, 0.0F);
  for (std::size_t row = 0; row < rows.count; ++row, input += n, slopes += n) {
    const RowMoments at = moments[row];
    FloatLanes slope_sums{};
    FloatLanes product_sums{};
    for (std::size_t c = 0; c < n; c += kFloatLanes) {
      FloatLanes values;
      FloatLanes slope;
      FloatLanes scale;
      load_lanes(values, input + c, n - c, at.mean);
      load_lanes(slope, slopes + c, n - c);
      load_lanes(scale, weight + c, n - c);
      slope *= scale;
      slope_sums += slope;
      product_sums += slope * ((values - at.mean) * at.reciprocal);
    }
    for (std::size_t c = 0; c < n; ++c) {
      weight_sum[c] += load(slopes[c]) * normalized(input[c], at);
      bias_sum[c] += load(slopes[c]);
    }
    if (to.input == nullptr) continue;
    const LayerNormBackward backward{at, sum_lanes(slope_sums) / count,
                                     sum_lanes(product_sums) / count};
    T* const gradient = to.input + row * n;
    for (std::size_t c = 0; c < n; ++c) backward(gradient[c], slopes[c], input[c], weight[c]);
  }
}

template <class T>
class LayerNormLayer final : public Operation {
 public:
  explicit LayerNormLayer(const OperationShape& shape)
      : batch_(shape.batch),
        trains_(shape.trains),
        channels_(static_cast<std::size_t>(shape.output.channels)),
        rows_(shape.output.count() / channels_) {}

  /// Saved: the moments of each row. Workspace: for each sample its sums for weight and bias.
  [[nodiscard]] OperationMemory memory() const override {
    if (!trains_) return {};
    const auto samples = static_cast<std::size_t>(batch_);
    return {.saved = samples * rows_ * sizeof(RowMoments),
            .workspace = samples * 2 * channels_ * sizeof(float)};
  }

  void forward(const Tensors& tensors, const Pass& /*pass*/) override {
    for_each_image(batch_, [&](int sample) {
      const auto first = static_cast<std::size_t>(sample) * rows_;
      normalize<T>({rows_, channels_}, input_of<T>(tensors) + first * channels_,
                   parameter(tensors, 0), parameter(tensors, 1),
                   output_of<T>(tensors) + first * channels_,
                   trains_ ? moments_of(tensors) + first : nullptr);
    });
  }

  void backward(const Tensors& tensors, const Pass& /*pass*/) override {
    auto* const sums = static_cast<float*>(tensors.workspace);
    T* const gradient = input_gradient_of<T>(tensors);
    for_each_image(batch_, [&](int sample) {
      const auto s = static_cast<std::size_t>(sample);
      const std::size_t first = s * rows_;
      const std::size_t at = first * channels_;
      float* const own = sums + s * 2 * channels_;
      backward_rows<T>({rows_, channels_}, input_of<T>(tensors) + at,
                       output_gradient_of<T>(tensors) + at, parameter(tensors, 0),
                       moments_of(tensors) + first,
                       {gradient == nullptr ? nullptr : gradient + at, own, own + channels_});
    });
    for (std::size_t k = 0; k < 2; ++k) {
      float* const sum = tensors.parameter_gradients[k];
      std::fill_n(sum, channels_, 0.0F);
      for (int sample = 0; sample < batch_; ++sample) {
        const float* const own = sums + (2 * static_cast<std::size_t>(sample) + k) * channels_;
        for (std::size_t c = 0; c < channels_; ++c) sum[c] += own[c];
      }
    }
  }

 private:
  static const float* parameter(const Tensors& tensors, std::size_t index) {
    return static_cast<const float*>(tensors.parameters[index]);
  }
  static RowMoments* moments_of(const Tensors& tensors) {
    return static_cast<RowMoments*>(tensors.saved);
  }

  int batch_;
  bool trains_;
  std::size_t channels_;
  std::size_t rows_;  // of one sample
};

}  // namespace

std::unique_ptr<Operation> make_layer_norm(const OperationShape& shape) {
  return for_storage(shape.storage, [&]<class T>(T) -> std::unique_ptr<Operation> {
    return std::make_unique<LayerNormLayer<T>>(shape);
  });
}

}  // namespace ddprun::trainer
