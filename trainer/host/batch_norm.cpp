// Batch norm over oneDNN, with the ReLU that often follows it in the same pass.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "trainer/host/host_loops.hpp"
#include "trainer/host/onednn.hpp"
#include "trainer/host/operations.hpp"

namespace ddprun::trainer {
namespace {

using namespace onednn;
using Flags = dnnl::normalization_flags;
using Forward = dnnl::batch_normalization_forward;
using Backward = dnnl::batch_normalization_backward;

constexpr float kEpsilon = 1e-5F;  // PyTorch's

Forward::primitive_desc describe_forward(dnnl::prop_kind kind, const memory::desc& data,
                                         Flags flags) {
#if DNNL_VERSION_MAJOR >= 3
  return describe<Forward>(kind, data, data, kEpsilon, flags);
#else
  return describe<Forward>(kind, data, kEpsilon, flags);
#endif
}

Backward::primitive_desc describe_backward_of(const Forward::primitive_desc& forward,
                                              const memory::desc& data, Flags flags) {
  const auto kind = dnnl::prop_kind::backward;
#if DNNL_VERSION_MAJOR >= 3
  return describe_backward<Backward>(forward, kind, data, data, data, kEpsilon, flags);
#else
  return describe_backward<Backward>(forward, kind, data, data, kEpsilon, flags);
#endif
}

/// oneDNN 3 refuses to run with an argument too many; oneDNN 2 wants this one.
constexpr bool kBackwardTakesShift = DNNL_VERSION_MAJOR < 3;

/// Where running_mean and running_var are among the parameters.
constexpr std::size_t kMean = 2;
constexpr std::size_t kVariance = 3;

class BatchNormLayer final : public Operation {
 public:
  BatchNormLayer(const OperationShape& shape, bool relu)
      : trains_(shape.trains),
        relu_(relu),
        storage_(shape.storage),
        channels_(static_cast<std::size_t>(shape.output.channels)),
        values_(batch_count(shape, shape.output) / channels_) {
    const memory::desc data = activations(shape.batch, shape.output, shape.storage);
    const memory::desc vector = plain({shape.output.channels}, memory::format_tag::x);
    Flags flags = Flags::use_scale | Flags::use_shift;
    if (!trains_) {
      flags |= Flags::use_global_stats;
    } else if (relu_) {
      flags |= Flags::fuse_norm_relu;
    }
    const auto forward = describe_forward(
        trains_ ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference, data,
        flags);
    forward_ = std::make_unique<Kernel>(forward, Forward(forward));
    forward_->declare(DNNL_ARG_SRC, data);
    forward_->declare(DNNL_ARG_DST, data);
    for (const int argument : {DNNL_ARG_SCALE, DNNL_ARG_SHIFT, DNNL_ARG_MEAN, DNNL_ARG_VARIANCE})
      forward_->declare(argument, vector);
    if (!trains_) return;
    const auto backward = describe_backward_of(forward, data, flags);
    backward_ = std::make_unique<Kernel>(backward, Backward(backward));
    for (const int argument : {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC})
      backward_->declare(argument, data);
    for (const int argument : {DNNL_ARG_SCALE, DNNL_ARG_MEAN, DNNL_ARG_VARIANCE,
                               DNNL_ARG_DIFF_SCALE, DNNL_ARG_DIFF_SHIFT})
      backward_->declare(argument, vector);
    if (kBackwardTakesShift) backward_->declare(DNNL_ARG_SHIFT, vector);
    if (!relu_) return;
    mask_bytes_ = forward.workspace_desc().get_size();
    forward_->declare(DNNL_ARG_WORKSPACE, forward.workspace_desc());
    backward_->declare(DNNL_ARG_WORKSPACE, forward.workspace_desc());
  }

  /// Saved: the shard's mean and variance, and where the ReLU let through.
  [[nodiscard]] OperationMemory memory() const override {
    if (!trains_) return {.workspace = forward_->scratch_bytes()};
    return {.saved = mask_at() + mask_bytes_,
            .workspace = std::max(forward_->scratch_bytes(),
                                  backward_->scratch_bytes() + no_gradient_bytes())};
  }

  void forward(const Tensors& tensors, const Pass& /*pass*/) override {
    forward_->set(DNNL_ARG_SRC, tensors.inputs[0]);
    forward_->set(DNNL_ARG_DST, tensors.output);
    forward_->set(DNNL_ARG_SCALE, tensors.parameters[0]);
    forward_->set(DNNL_ARG_SHIFT, tensors.parameters[1]);
    forward_->set(DNNL_ARG_MEAN, trains_ ? mean_of(tensors) : tensors.parameters[kMean]);
    forward_->set(DNNL_ARG_VARIANCE,
                  trains_ ? variance_of(tensors) : tensors.parameters[kVariance]);
    if (trains_ && relu_) forward_->set(DNNL_ARG_WORKSPACE, mask_of(tensors));
    forward_->run(static_cast<std::byte*>(tensors.workspace));
    if (!relu_) return;
    if (storage_ == Storage::bf16) {
      finish_relu<BFloat16>(tensors);
    } else {
      finish_relu<float>(tensors);
    }
  }

  void backward(const Tensors& tensors, const Pass& /*pass*/) override {
    auto* workspace = static_cast<std::byte*>(tensors.workspace);
    // oneDNN gives all three gradients or none.
    void* input_gradient = tensors.input_gradients[0];
    if (input_gradient == nullptr) {
      input_gradient = workspace;
      workspace += no_gradient_bytes();
    }
    backward_->set(DNNL_ARG_SRC, tensors.inputs[0]);
    backward_->set(DNNL_ARG_DIFF_DST, tensors.output_gradient);
    backward_->set(DNNL_ARG_DIFF_SRC, input_gradient);
    backward_->set(DNNL_ARG_SCALE, tensors.parameters[0]);
    if (kBackwardTakesShift) backward_->set(DNNL_ARG_SHIFT, tensors.parameters[1]);
    backward_->set(DNNL_ARG_MEAN, mean_of(tensors));
    backward_->set(DNNL_ARG_VARIANCE, variance_of(tensors));
    backward_->set(DNNL_ARG_DIFF_SCALE, tensors.parameter_gradients[0]);
    backward_->set(DNNL_ARG_DIFF_SHIFT, tensors.parameter_gradients[1]);
    if (relu_) backward_->set(DNNL_ARG_WORKSPACE, mask_of(tensors));
    backward_->run(workspace);
    std::copy_n(mean_of(tensors), channels_, tensors.parameter_gradients[kMean]);
    // PyTorch has no unbiased variance of one value and refuses to train; here it is 0.
    const float unbiased =
        values_ > 1 ? static_cast<float>(values_) / static_cast<float>(values_ - 1) : 1.0F;
    for (std::size_t c = 0; c < channels_; ++c)
      tensors.parameter_gradients[kVariance][c] = variance_of(tensors)[c] * unbiased;
  }

 private:
  /// oneDNN's ReLU turns nan into 0, which would hide it from the loss. So evaluation has a ReLU of
  /// our own behind it. In training every value of a channel is nan if one is, and then the mean
  /// is, too: that costs a look at each channel alone.
  template <class T>
  void finish_relu(const Tensors& tensors) const {
    T* const output = output_of<T>(tensors);
    const std::size_t count = values_ * channels_;
    if (!trains_) return relu_forward<T>(output, output, count);
    const float* const mean = mean_of(tensors);
    const float* const variance = variance_of(tensors);
    const auto* const scale = static_cast<const float*>(tensors.parameters[0]);
    const auto* const shift = static_cast<const float*>(tensors.parameters[1]);
    for (std::size_t c = 0; c < channels_; ++c) {
      if (std::isfinite(mean[c]) && std::isfinite(variance[c]) && std::isfinite(scale[c]) &&
          std::isfinite(shift[c]))
        continue;
      for (std::size_t i = c; i < count; i += channels_)
        store(output[i], std::numeric_limits<float>::quiet_NaN());
    }
  }
  [[nodiscard]] std::size_t vector_bytes() const { return aligned(channels_ * sizeof(float)); }
  [[nodiscard]] std::size_t mask_at() const { return 2 * vector_bytes(); }
  [[nodiscard]] std::size_t no_gradient_bytes() const {
    return aligned(values_ * channels_ * bytes_of(storage_));
  }
  static float* mean_of(const Tensors& tensors) { return static_cast<float*>(tensors.saved); }
  [[nodiscard]] float* variance_of(const Tensors& tensors) const {
    return mean_of(tensors) + vector_bytes() / sizeof(float);
  }
  [[nodiscard]] std::byte* mask_of(const Tensors& tensors) const {
    return static_cast<std::byte*>(tensors.saved) + mask_at();
  }

  bool trains_;
  bool relu_;
  Storage storage_;
  std::size_t channels_;
  std::size_t values_;  // of each channel
  std::size_t mask_bytes_ = 0;
  std::unique_ptr<Kernel> forward_;
  std::unique_ptr<Kernel> backward_;
};

}  // namespace

std::unique_ptr<Operation> make_batch_norm(const OperationShape& shape, bool relu) {
  return std::make_unique<BatchNormLayer>(shape, relu);
}

}  // namespace ddprun::trainer
