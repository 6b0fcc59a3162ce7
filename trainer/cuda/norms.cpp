// Batch norm and layer norm.
#include <algorithm>
#include <functional>
#include <memory>

#include "trainer/cuda/kernels/norm_kernels.hpp"
#include "trainer/cuda/launch.hpp"
#include "trainer/cuda/operations.hpp"
#include "trainer/cuda/row_sums.hpp"

namespace ddprun::trainer::cuda {
namespace {

const float* floats(const void* parameter) { return static_cast<const float*>(parameter); }

/// Where running_mean and running_var are among the parameters.
constexpr std::size_t kMean = 2;
constexpr std::size_t kVariance = 3;

template <class T>
class BatchNormLayer final : public Operation {
 public:
  BatchNormLayer(Gpu& gpu, const OperationShape& shape, bool relu)
      : gpu_(gpu),
        trains_(shape.trains),
        relu_(relu),
        channels_(static_cast<std::size_t>(shape.output.channels)),
        count_(batch_count(shape, shape.output)),
        rows_(count_ / channels_),
        sums_(gpu, rows_, channels_) {}

  /// Saved: the shard's mean and variance; from backward on its gradients of weight and bias, too.
  [[nodiscard]] OperationMemory memory() const override {
    if (!trains_) return {};
    return {.saved = 4 * channels_ * sizeof(float), .workspace = sums_.workspace_bytes(2)};
  }

  void forward(const Tensors& tensors, const Pass& /*pass*/) override {
    const T* const input = input_of<T>(tensors);
    if (trains_) {
      const float share = 1.0F / static_cast<float>(rows_);
      sums_.run(ValueTerm<T>{input, channels_}, {.to = mean(tensors), .factor = share},
                tensors.workspace);
      sums_.run(SquareTerm<T>{input, mean(tensors), channels_},
                {.to = variance(tensors), .factor = share}, tensors.workspace);
    }
    launch_over(gpu_, count_,
                BatchNormForward<T>{channels_of(tensors), input, output_of<T>(tensors), count_});
  }

  void backward(const Tensors& tensors, const Pass& /*pass*/) override {
    const T* const input = input_of<T>(tensors);
    const T* const slopes = output_gradient_of<T>(tensors);
    const BatchNormChannels norm = channels_of(tensors);
    // The sums of this shard alone: the arena may hold other shards' gradients.
    float* const weight_gradient = variance(tensors) + channels_;
    float* const bias_gradient = weight_gradient + channels_;
    sums_.run(BatchNormTerm<T>{norm, input, slopes},
              {.to = weight_gradient, .second = bias_gradient}, tensors.workspace);
    // PyTorch has no unbiased variance of one value and refuses to train; here it is 0.
    const float unbiased =
        rows_ > 1 ? static_cast<float>(rows_) / static_cast<float>(rows_ - 1) : 1.0F;
    launch_over(gpu_, channels_,
                GiveChannels{.mean = mean(tensors),
                             .variance = variance(tensors),
                             .unbiased = unbiased,
                             .weight_gradient = weight_gradient,
                             .bias_gradient = bias_gradient,
                             .to_weight = tensors.parameter_gradients[0],
                             .to_bias = tensors.parameter_gradients[1],
                             .to_mean = tensors.parameter_gradients[kMean],
                             .to_variance = tensors.parameter_gradients[kVariance],
                             .adds = tensors.accumulates,
                             .channels = channels_});
    if (tensors.input_gradients[0] == nullptr) return;
    launch_over(gpu_, count_,
                BatchNormGradient<T>{norm, input, slopes, weight_gradient, bias_gradient,
                                     1.0F / static_cast<float>(rows_),
                                     input_gradient_of<T>(tensors), count_});
  }

 private:
  static float* mean(const Tensors& tensors) { return static_cast<float*>(tensors.saved); }
  [[nodiscard]] float* variance(const Tensors& tensors) const { return mean(tensors) + channels_; }
  [[nodiscard]] BatchNormChannels channels_of(const Tensors& tensors) const {
    return {.weight = floats(tensors.parameters[0]),
            .bias = floats(tensors.parameters[1]),
            .mean = trains_ ? mean(tensors) : floats(tensors.parameters[kMean]),
            .variance = trains_ ? variance(tensors) : floats(tensors.parameters[kVariance]),
            .channels = channels_,
            .relu = relu_};
  }

  Gpu& gpu_;
  bool trains_;
  bool relu_;
  std::size_t channels_;
  std::size_t count_;
  std::size_t rows_;  // values of each channel
  RowSums sums_;
};

template <class T>
class LayerNormLayer final : public Operation {
 public:
  LayerNormLayer(Gpu& gpu, const OperationShape& shape)
      : gpu_(gpu),
        trains_(shape.trains),
        channels_(static_cast<std::size_t>(shape.output.channels)),
        rows_(batch_count(shape, shape.output) / channels_),
        sums_(gpu, rows_, channels_) {}

  /// Saved: the moments of each row.
  [[nodiscard]] OperationMemory memory() const override {
    if (!trains_) return {};
    return {.saved = rows_ * sizeof(RowMoments), .workspace = sums_.workspace_bytes(2)};
  }

  void forward(const Tensors& tensors, const Pass& /*pass*/) override {
    launch(gpu_, static_cast<unsigned>(rows_),
           LayerNormForward<T>{input_of<T>(tensors), floats(tensors.parameters[0]),
                               floats(tensors.parameters[1]), output_of<T>(tensors),
                               trains_ ? moments(tensors) : nullptr, channels_});
  }

  void backward(const Tensors& tensors, const Pass& /*pass*/) override {
    const T* const input = input_of<T>(tensors);
    const T* const slopes = output_gradient_of<T>(tensors);
    sums_.run(LayerNormTerm<T>{slopes, input, moments(tensors), channels_},
              weight_and_bias_gradient(tensors), tensors.workspace);
    if (tensors.input_gradients[0] == nullptr) return;
    launch(gpu_, static_cast<unsigned>(rows_),
           LayerNormGradient<T>{input, slopes, floats(tensors.parameters[0]), moments(tensors),
                                input_gradient_of<T>(tensors), channels_});
  }

 private:
  static RowMoments* moments(const Tensors& tensors) {
    return static_cast<RowMoments*>(tensors.saved);
  }

  Gpu& gpu_;
  bool trains_;
  std::size_t channels_, rows_;
  RowSums sums_;
};

}  // namespace

std::unique_ptr<Operation> make_batch_norm(Gpu& gpu, const OperationShape& shape, bool relu) {
  return make_typed<BatchNormLayer>(shape.storage, std::ref(gpu), shape, relu);
}

std::unique_ptr<Operation> make_layer_norm(Gpu& gpu, const OperationShape& shape) {
  return make_typed<LayerNormLayer>(shape.storage, std::ref(gpu), shape);
}

}  // namespace ddprun::trainer::cuda
