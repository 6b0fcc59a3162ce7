// Convolutions and linear layers: the libraries' work, and the biases.
#include <algorithm>
#include <functional>
#include <memory>

#include "trainer/cuda/kernels/element_kernels.hpp"
#include "trainer/cuda/launch.hpp"
#include "trainer/cuda/operations.hpp"
#include "trainer/cuda/row_sums.hpp"

namespace ddprun::trainer::cuda {
namespace {

/// Only read.
void* weight_of(const Tensors& tensors) { return const_cast<void*>(tensors.parameters[0]); }

/// One pass of a layer. Only gradients of weights are added to what is there.
void convolve(Gpu& gpu, const ConvolutionShape& shape, ConvolutionPass pass, const Tensors& tensors,
              void* input, void* weight, void* output) {
  gpu.convolve(Stream::compute,
               {.pass = pass,
                .shape = shape,
                .input = input,
                .weight = weight,
                .output = output,
                .accumulate = pass == ConvolutionPass::weight_gradient && tensors.accumulates,
                .workspace = tensors.workspace});
}

template <class T>
class ConvolutionLayer final : public Operation {
 public:
  ConvolutionLayer(Gpu& gpu, const OperationShape& shape, const Window& window)
      : gpu_(gpu),
        shape_{.batch = shape.batch,
               .input = shape.inputs[0].shape,
               .output = shape.output,
               .window = window,
               .type = element_type(shape.storage)},
        has_bias_(shape.parameter_counts.size() > 1),
        channels_(static_cast<std::size_t>(shape.output.channels)),
        outputs_(batch_count(shape, shape.output)),
        bias_gradient_(gpu, outputs_ / channels_, channels_) {
    workspace_ = gpu.workspace_bytes(ConvolutionPass::forward, shape_);
    if (!shape.trains) return;
    workspace_ = std::max({workspace_, bias_gradient_.workspace_bytes(),
                           gpu.workspace_bytes(ConvolutionPass::weight_gradient, shape_)});
    // Not asked of the first layer, which does without: cuDNN may have no way for its few channels.
    if (shape.inputs[0].gradient != GradientUse::none)
      workspace_ =
          std::max(workspace_, gpu.workspace_bytes(ConvolutionPass::input_gradient, shape_));
  }
  [[nodiscard]] OperationMemory memory() const override { return {.workspace = workspace_}; }

  void forward(const Tensors& tensors, const Pass& /*pass*/) override {
    convolve(gpu_, shape_, ConvolutionPass::forward, tensors, mutable_input(tensors),
             weight_of(tensors), tensors.output);
    if (!has_bias_) return;
    launch_over(gpu_, outputs_,
                AddBias<T>{output_of<T>(tensors), static_cast<const T*>(tensors.parameters[1]),
                           channels_, outputs_});
  }

  void backward(const Tensors& tensors, const Pass& /*pass*/) override {
    void* const slopes = const_cast<void*>(tensors.output_gradient);
    convolve(gpu_, shape_, ConvolutionPass::weight_gradient, tensors, mutable_input(tensors),
             tensors.parameter_gradients[0], slopes);
    if (has_bias_)
      bias_gradient_.run(ValueTerm<T>{output_gradient_of<T>(tensors), channels_},
                         parameter_gradient(tensors, 1), tensors.workspace);
    if (tensors.input_gradients[0] == nullptr) return;
    convolve(gpu_, shape_, ConvolutionPass::input_gradient, tensors, tensors.input_gradients[0],
             weight_of(tensors), slopes);
  }

 private:
  static void* mutable_input(const Tensors& tensors) {
    return const_cast<void*>(tensors.inputs[0]);
  }

  Gpu& gpu_;
  ConvolutionShape shape_;
  bool has_bias_;
  std::size_t channels_, outputs_;
  RowSums bias_gradient_;
  std::size_t workspace_ = 0;
};

/// The gradient of a convolution by its input, forwards: that one's input is our output.
template <class T>
class TransposedConvolutionLayer final : public Operation {
 public:
  TransposedConvolutionLayer(Gpu& gpu, const OperationShape& shape, const Window& window)
      : gpu_(gpu),
        shape_{.batch = shape.batch,
               .input = shape.output,
               .output = shape.inputs[0].shape,
               .window = window,
               .type = element_type(shape.storage)},
        channels_(static_cast<std::size_t>(shape.output.channels)),
        outputs_(batch_count(shape, shape.output)),
        bias_gradient_(gpu, outputs_ / channels_, channels_) {
    workspace_ = gpu.workspace_bytes(ConvolutionPass::input_gradient, shape_);
    if (!shape.trains) return;
    workspace_ = std::max({workspace_, bias_gradient_.workspace_bytes(),
                           gpu.workspace_bytes(ConvolutionPass::forward, shape_),
                           gpu.workspace_bytes(ConvolutionPass::weight_gradient, shape_)});
  }
  [[nodiscard]] OperationMemory memory() const override { return {.workspace = workspace_}; }

  void forward(const Tensors& tensors, const Pass& /*pass*/) override {
    convolve(gpu_, shape_, ConvolutionPass::input_gradient, tensors, tensors.output,
             weight_of(tensors), const_cast<void*>(tensors.inputs[0]));
    launch_over(gpu_, outputs_,
                AddBias<T>{output_of<T>(tensors), static_cast<const T*>(tensors.parameters[1]),
                           channels_, outputs_});
  }

  void backward(const Tensors& tensors, const Pass& /*pass*/) override {
    void* const slopes = const_cast<void*>(tensors.output_gradient);
    convolve(gpu_, shape_, ConvolutionPass::weight_gradient, tensors, slopes,
             tensors.parameter_gradients[0], const_cast<void*>(tensors.inputs[0]));
    bias_gradient_.run(ValueTerm<T>{output_gradient_of<T>(tensors), channels_},
                       parameter_gradient(tensors, 1), tensors.workspace);
    if (tensors.input_gradients[0] == nullptr) return;
    convolve(gpu_, shape_, ConvolutionPass::forward, tensors, slopes, weight_of(tensors),
             tensors.input_gradients[0]);
  }

 private:
  Gpu& gpu_;
  ConvolutionShape shape_;
  std::size_t channels_, outputs_;
  RowSums bias_gradient_;
  std::size_t workspace_ = 0;
};

/// PyTorch's weight: outputs x inputs. Of each pixel or token by itself.
template <class T>
class LinearLayer final : public Operation {
 public:
  LinearLayer(Gpu& gpu, const OperationShape& shape)
      : gpu_(gpu),
        type_(element_type(shape.storage)),
        inputs_(shape.inputs[0].shape.channels),
        outputs_(shape.output.channels),
        rows_(shape.batch * shape.output.height * shape.output.width),
        bias_gradient_(gpu, static_cast<std::size_t>(rows_), static_cast<std::size_t>(outputs_)) {}

  [[nodiscard]] OperationMemory memory() const override {
    return {.workspace = bias_gradient_.workspace_bytes()};
  }

  void forward(const Tensors& tensors, const Pass& /*pass*/) override {
    gpu_.multiply(Stream::compute, {.rows = rows_,
                                    .columns = outputs_,
                                    .depth = inputs_,
                                    .a = matrix(tensors.inputs[0], inputs_),
                                    .b = matrix(tensors.parameters[0], inputs_, true),
                                    .out = tensors.output,
                                    .out_type = type_,
                                    .out_stride = outputs_,
                                    .bias = tensors.parameters[1]});
  }

  void backward(const Tensors& tensors, const Pass& /*pass*/) override {
    gpu_.multiply(Stream::compute, {.rows = outputs_,
                                    .columns = inputs_,
                                    .depth = rows_,
                                    .a = matrix(tensors.output_gradient, outputs_, true),
                                    .b = matrix(tensors.inputs[0], inputs_),
                                    .out = tensors.parameter_gradients[0],
                                    .out_type = ElementType::fp32,
                                    .out_stride = inputs_,
                                    .accumulate = tensors.accumulates});
    bias_gradient_.run(
        ValueTerm<T>{output_gradient_of<T>(tensors), static_cast<std::size_t>(outputs_)},
        parameter_gradient(tensors, 1), tensors.workspace);
    if (tensors.input_gradients[0] == nullptr) return;
    gpu_.multiply(Stream::compute, {.rows = rows_,
                                    .columns = inputs_,
                                    .depth = outputs_,
                                    .a = matrix(tensors.output_gradient, outputs_),
                                    .b = matrix(tensors.parameters[0], inputs_),
                                    .out = tensors.input_gradients[0],
                                    .out_type = type_,
                                    .out_stride = inputs_});
  }

 private:
  [[nodiscard]] Matrix matrix(const void* data, int stride, bool transposed = false) const {
    return {.data = data, .type = type_, .stride = stride, .transposed = transposed};
  }

  Gpu& gpu_;
  ElementType type_;
  int inputs_, outputs_, rows_;
  RowSums bias_gradient_;
};

/// One linear layer with the weights of three, which lie side by side.
template <class T>
class AttentionProjectionLayer final : public Operation {
 public:
  AttentionProjectionLayer(Gpu& gpu, const OperationShape& shape) : linear_(gpu, shape) {}
  [[nodiscard]] OperationMemory memory() const override { return linear_.memory(); }
  void forward(const Tensors& tensors, const Pass& pass) override {
    const void* parameters[] = {tensors.parameters[0], tensors.parameters[3]};
    Tensors whole = tensors;
    whole.parameters = parameters;
    linear_.forward(whole, pass);
  }
  void backward(const Tensors& tensors, const Pass& pass) override {
    const void* parameters[] = {tensors.parameters[0], tensors.parameters[3]};
    float* gradients[] = {tensors.parameter_gradients[0], tensors.parameter_gradients[3]};
    Tensors whole = tensors;
    whole.parameters = parameters;
    whole.parameter_gradients = gradients;
    linear_.backward(whole, pass);
  }

 private:
  LinearLayer<T> linear_;
};

}  // namespace

std::unique_ptr<Operation> make_convolution(Gpu& gpu, const OperationShape& shape,
                                            const Window& window) {
  return make_typed<ConvolutionLayer>(shape.storage, std::ref(gpu), shape, window);
}

std::unique_ptr<Operation> make_transposed_convolution(Gpu& gpu, const OperationShape& shape,
                                                       const Window& window) {
  return make_typed<TransposedConvolutionLayer>(shape.storage, std::ref(gpu), shape, window);
}

std::unique_ptr<Operation> make_attention_projection(Gpu& gpu, const OperationShape& shape) {
  return make_typed<AttentionProjectionLayer>(shape.storage, std::ref(gpu), shape);
}

std::unique_ptr<Operation> make_linear(Gpu& gpu, const OperationShape& shape) {
  return make_typed<LinearLayer>(shape.storage, std::ref(gpu), shape);
}

}  // namespace ddprun::trainer::cuda
