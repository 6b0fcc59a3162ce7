// Layers over oneDNN: convolutions; and the name of what runs them.
#include <algorithm>
#include <memory>

#include "trainer/host/host_device.hpp"
#include "trainer/host/onednn.hpp"
#include "trainer/host/operations.hpp"

namespace ddprun::trainer {
namespace {

using namespace onednn;

/// A copy between the arena's layout and the one that a primitive chose; nothing at all where they
/// are the same. The copy lies at the beginning of the workspace.
class Relayout {
 public:
  Relayout(const memory::desc& from, const memory::desc& to, const memory::desc& chosen) {
    if (from == to) return;
    copy_bytes_ = aligned(chosen.get_size());
    const dnnl::reorder::primitive_desc description(cpu(), from, cpu(), to, attributes());
    kernel_ = std::make_unique<Kernel>(description, dnnl::reorder(description));
    kernel_->declare(DNNL_ARG_FROM, from);
    kernel_->declare(DNNL_ARG_TO, to);
  }
  /// Arena to chosen layout: what the primitive shall read.
  const void* import(const void* arena, std::byte* workspace) {
    if (!kernel_) return arena;
    run(arena, workspace, workspace);
    return workspace;
  }
  /// Where the primitive shall write, before copy_to(arena).
  void* target(void* arena, std::byte* workspace) { return kernel_ ? workspace : arena; }
  void copy_to(void* arena, std::byte* workspace) {
    if (kernel_) run(workspace, arena, workspace);
  }
  /// Bytes of the copy; the primitive's own scratch memory is behind it.
  [[nodiscard]] std::size_t copy_bytes() const { return copy_bytes_; }
  [[nodiscard]] std::size_t bytes() const {
    return kernel_ ? copy_bytes_ + kernel_->scratch_bytes() : 0;
  }

 private:
  void run(const void* from, void* to, std::byte* workspace) {
    kernel_->set(DNNL_ARG_FROM, from);
    kernel_->set(DNNL_ARG_TO, to);
    kernel_->run(workspace + copy_bytes_);
  }
  std::size_t copy_bytes_ = 0;
  std::unique_ptr<Kernel> kernel_;
};

/// Convolutions and transposed ones differ in their descriptions alone. Weights and gradients of
/// weights: as the arenas have them, and with the layout left to the library.
struct Descriptions {
  memory::desc input, output;
  memory::desc bias, bias_gradient;  // zero: there is none
  memory::desc weight, any_weight;
  memory::desc weight_gradient, any_weight_gradient;
};

Descriptions descriptions_of(const OperationShape& shape, const memory::dims& weight,
                             memory::format_tag tag) {
  using Tag = memory::format_tag;
  const Storage storage = shape.storage;
  const bool has_bias = shape.parameter_counts.size() > 1;
  const memory::dims bias{shape.output.channels};
  return {.input = activations(shape.batch, shape.inputs[0].shape, storage),
          .output = activations(shape.batch, shape.output, storage),
          .bias = has_bias ? plain(bias, Tag::x, storage) : memory::desc(),
          .bias_gradient = has_bias ? plain(bias, Tag::x) : memory::desc(),
          .weight = plain(weight, tag, storage),
          .any_weight = plain(weight, Tag::any, storage),
          .weight_gradient = plain(weight, tag),
          .any_weight_gradient = plain(weight, Tag::any)};
}

template <class Forward, class BackwardData, class BackwardWeights>
class WeightedLayer final : public Operation {
 public:
  WeightedLayer(const Descriptions& at, const typename Forward::primitive_desc& forward,
                const typename BackwardWeights::primitive_desc& backward_weights,
                const typename BackwardData::primitive_desc* backward_data)
      : has_bias_(!at.bias.is_zero()),
        forward_(forward, Forward(forward)),
        backward_weights_(backward_weights, BackwardWeights(backward_weights)),
        weight_(at.weight, forward.weights_desc(), forward.weights_desc()),
        weight_gradient_(backward_weights.diff_weights_desc(), at.weight_gradient,
                         backward_weights.diff_weights_desc()) {
    forward_.declare(DNNL_ARG_SRC, at.input);
    forward_.declare(DNNL_ARG_WEIGHTS, forward.weights_desc());
    if (has_bias_) forward_.declare(DNNL_ARG_BIAS, at.bias);
    forward_.declare(DNNL_ARG_DST, at.output);
    backward_weights_.declare(DNNL_ARG_SRC, at.input);
    backward_weights_.declare(DNNL_ARG_DIFF_DST, at.output);
    backward_weights_.declare(DNNL_ARG_DIFF_WEIGHTS, backward_weights.diff_weights_desc());
    if (has_bias_) backward_weights_.declare(DNNL_ARG_DIFF_BIAS, at.bias_gradient);
    if (backward_data == nullptr) return;
    backward_data_ = std::make_unique<Kernel>(*backward_data, BackwardData(*backward_data));
    backward_data_->declare(DNNL_ARG_DIFF_SRC, at.input);
    backward_data_->declare(DNNL_ARG_WEIGHTS, backward_data->weights_desc());
    backward_data_->declare(DNNL_ARG_DIFF_DST, at.output);
    weight_for_data_ = std::make_unique<Relayout>(at.weight, backward_data->weights_desc(),
                                                  backward_data->weights_desc());
  }

  [[nodiscard]] OperationMemory memory() const override {
    std::size_t most =
        std::max(needs(weight_, forward_), needs(weight_gradient_, backward_weights_));
    if (backward_data_) most = std::max(most, needs(*weight_for_data_, *backward_data_));
    return {.workspace = most};
  }

  void forward(const Tensors& tensors, const Pass& /*pass*/) override {
    auto* const workspace = static_cast<std::byte*>(tensors.workspace);
    forward_.set(DNNL_ARG_SRC, tensors.inputs[0]);
    forward_.set(DNNL_ARG_WEIGHTS, weight_.import(tensors.parameters[0], workspace));
    if (has_bias_) forward_.set(DNNL_ARG_BIAS, tensors.parameters[1]);
    forward_.set(DNNL_ARG_DST, tensors.output);
    forward_.run(workspace + weight_.copy_bytes());
  }

  void backward(const Tensors& tensors, const Pass& /*pass*/) override {
    auto* const workspace = static_cast<std::byte*>(tensors.workspace);
    float* const weight_gradient = tensors.parameter_gradients[0];
    backward_weights_.set(DNNL_ARG_SRC, tensors.inputs[0]);
    backward_weights_.set(DNNL_ARG_DIFF_DST, tensors.output_gradient);
    backward_weights_.set(DNNL_ARG_DIFF_WEIGHTS,
                          weight_gradient_.target(weight_gradient, workspace));
    if (has_bias_) backward_weights_.set(DNNL_ARG_DIFF_BIAS, tensors.parameter_gradients[1]);
    backward_weights_.run(workspace + weight_gradient_.copy_bytes());
    weight_gradient_.copy_to(weight_gradient, workspace);
    if (!backward_data_) return;
    backward_data_->set(DNNL_ARG_DIFF_SRC, tensors.input_gradients[0]);
    backward_data_->set(DNNL_ARG_WEIGHTS,
                        weight_for_data_->import(tensors.parameters[0], workspace));
    backward_data_->set(DNNL_ARG_DIFF_DST, tensors.output_gradient);
    backward_data_->run(workspace + weight_for_data_->copy_bytes());
  }

 private:
  static std::size_t needs(const Relayout& relayout, const Kernel& kernel) {
    return std::max(relayout.bytes(), relayout.copy_bytes() + kernel.scratch_bytes());
  }

  bool has_bias_;
  Kernel forward_;
  Kernel backward_weights_;
  std::unique_ptr<Kernel> backward_data_;  // null: nobody needs the input's gradient
  Relayout weight_;
  Relayout weight_gradient_;
  std::unique_ptr<Relayout> weight_for_data_;
};

bool needs_input_gradient(const OperationShape& shape) {
  return shape.inputs[0].gradient != GradientUse::none;
}

}  // namespace

std::unique_ptr<Operation> make_convolution(const OperationShape& shape, const Window& window) {
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const ActivationShape& in = shape.inputs[0].shape;
  const memory::dims weight{shape.output.channels, in.channels, window.size, window.size};
  const memory::dims strides{window.stride, window.stride};
  const memory::dims padding{window.padding, window.padding};
  const Descriptions at = descriptions_of(shape, weight, memory::format_tag::ohwi);
  const auto forward = describe<dnnl::convolution_forward>(
      dnnl::prop_kind::forward_training, algorithm, at.input, at.any_weight, at.bias, at.output,
      strides, padding, padding);
  const auto backward_weights = describe_backward<dnnl::convolution_backward_weights>(
      forward, algorithm, at.input, at.any_weight_gradient, at.bias_gradient, at.output, strides,
      padding, padding);
  using Weighted = WeightedLayer<dnnl::convolution_forward, dnnl::convolution_backward_data,
                                 dnnl::convolution_backward_weights>;
  if (!needs_input_gradient(shape)) {
    return std::make_unique<Weighted>(at, forward, backward_weights, nullptr);
  }
  const auto backward_data = describe_backward<dnnl::convolution_backward_data>(
      forward, algorithm, at.input, at.any_weight, at.output, strides, padding, padding);
  return std::make_unique<Weighted>(at, forward, backward_weights, &backward_data);
}

std::unique_ptr<Operation> make_transposed_convolution(const OperationShape& shape,
                                                       const layer::TransposedConvolution& kind) {
  const auto algorithm = dnnl::algorithm::deconvolution_direct;
  const Window& window = kind.window;
  const ActivationShape& in = shape.inputs[0].shape;
  const memory::dims weight{shape.output.channels, in.channels, window.size, window.size};
  const memory::dims strides{window.stride, window.stride};
  const memory::dims padding{window.padding, window.padding};
  const Descriptions at = descriptions_of(shape, weight, memory::format_tag::ihwo);
  const auto forward = describe<dnnl::deconvolution_forward>(
      dnnl::prop_kind::forward_training, algorithm, at.input, at.any_weight, at.bias, at.output,
      strides, padding, padding);
  const auto backward_weights = describe_backward<dnnl::deconvolution_backward_weights>(
      forward, algorithm, at.input, at.any_weight_gradient, at.bias_gradient, at.output, strides,
      padding, padding);
  using Weighted = WeightedLayer<dnnl::deconvolution_forward, dnnl::deconvolution_backward_data,
                                 dnnl::deconvolution_backward_weights>;
  if (!needs_input_gradient(shape)) {
    return std::make_unique<Weighted>(at, forward, backward_weights, nullptr);
  }
  const auto backward_data = describe_backward<dnnl::deconvolution_backward_data>(
      forward, algorithm, at.input, at.any_weight, at.output, strides, padding, padding);
  return std::make_unique<Weighted>(at, forward, backward_weights, &backward_data);
}

bool has_bf16_instructions() {
  const auto bits = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & bits) == bits;
}

std::string compute_description(Storage storage) {
  const auto kept = [&] {
    switch (storage) {
      case Storage::fp32:
        break;
      case Storage::bf16:
        return ", bf16 stored";
      case Storage::fp16:
        return ", fp16 stored";
      case Storage::rounded_to_bf16:
        return ", bf16 rounded";
      case Storage::rounded_to_fp16:
        return ", fp16 rounded";
    }
    return "";
  };
  const auto name = [](dnnl::cpu_isa isa) -> std::string {
    switch (isa) {
      case dnnl::cpu_isa::sse41:
        return "sse41";
      case dnnl::cpu_isa::avx2:
        return "avx2";
      case dnnl::cpu_isa::avx2_vnni:
        return "avx2_vnni";
      case dnnl::cpu_isa::avx512_core:
        return "avx512_core";
      case dnnl::cpu_isa::avx512_core_vnni:
        return "avx512_core_vnni";
      case dnnl::cpu_isa::avx512_core_bf16:
        return "avx512_core_bf16";
      case dnnl::cpu_isa::avx512_core_amx:
        return "avx512_core_amx";
      default:
        return "isa_" + std::to_string(static_cast<int>(isa));
    }
  };
  const dnnl_version_t* version = dnnl_version();
  return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch) + kept() + " " + name(dnnl::get_effective_cpu_isa());
}

}  // namespace ddprun::trainer
