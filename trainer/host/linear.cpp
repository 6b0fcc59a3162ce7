// Linear layers over oneDNN, which read and write the arenas as they are: a layout of the library's
// own would have to be copied in every step, which takes as long as the products themselves where
// there are few samples and many weights.
#include <algorithm>
#include <memory>

#include "trainer/host/onednn.hpp"
#include "trainer/host/operations.hpp"

namespace ddprun::trainer {
namespace {

using namespace onednn;
class LinearLayer final : public Operation {
  using Forward = dnnl::matmul;  // faster than inner_product_forward with a weight as it is
  using BackwardData = dnnl::inner_product_backward_data;
  using BackwardWeights = dnnl::inner_product_backward_weights;

 public:
  explicit LinearLayer(const OperationShape& shape) {
    const int inputs = shape.inputs[0].shape.channels;
    const int outputs = shape.output.channels;
    const int rows = shape.batch * shape.output.height * shape.output.width;
    using Tag = memory::format_tag;
    const Storage storage = shape.storage;
    const memory::desc input = plain({rows, inputs}, Tag::ab, storage);
    const memory::desc output = plain({rows, outputs}, Tag::ab, storage);
    // PyTorch's outputs x inputs, read as its transpose.
    const memory::desc transposed = plain({inputs, outputs}, Tag::ba, storage);
    const memory::desc row = plain({1, outputs}, Tag::ab, storage);
    const auto forward = describe<Forward>(input, transposed, row, output);
    forward_ = std::make_unique<Kernel>(forward, Forward(forward));
    forward_->declare(DNNL_ARG_SRC, input);
    forward_->declare(DNNL_ARG_WEIGHTS, transposed);
    forward_->declare(DNNL_ARG_BIAS, row);
    forward_->declare(DNNL_ARG_DST, output);
    if (!shape.trains) return;

    const memory::desc weight = plain({outputs, inputs}, Tag::ab, storage);
    const memory::desc weight_gradient = plain({outputs, inputs}, Tag::ab);
    const memory::desc bias_gradient = plain({outputs}, Tag::x);
    const auto hint =
        describe<dnnl::inner_product_forward>(dnnl::prop_kind::forward_training, input, weight,
                                              plain({outputs}, Tag::x, storage), output);
    const auto backward_weights =
        describe_backward<BackwardWeights>(hint, input, weight_gradient, bias_gradient, output);
    backward_weights_ =
        std::make_unique<Kernel>(backward_weights, BackwardWeights(backward_weights));
    backward_weights_->declare(DNNL_ARG_SRC, input);
    backward_weights_->declare(DNNL_ARG_DIFF_DST, output);
    backward_weights_->declare(DNNL_ARG_DIFF_WEIGHTS, weight_gradient);
    backward_weights_->declare(DNNL_ARG_DIFF_BIAS, bias_gradient);
    if (shape.inputs[0].gradient == GradientUse::none) return;
    const auto backward_data = describe_backward<BackwardData>(hint, input, weight, output);
    backward_data_ = std::make_unique<Kernel>(backward_data, BackwardData(backward_data));
    backward_data_->declare(DNNL_ARG_DIFF_SRC, input);
    backward_data_->declare(DNNL_ARG_WEIGHTS, weight);
    backward_data_->declare(DNNL_ARG_DIFF_DST, output);
  }

  [[nodiscard]] OperationMemory memory() const override {
    std::size_t most = forward_->scratch_bytes();
    if (backward_weights_) most = std::max(most, backward_weights_->scratch_bytes());
    if (backward_data_) most = std::max(most, backward_data_->scratch_bytes());
    return {.workspace = most};
  }

  void forward(const Tensors& tensors, const Pass& /*pass*/) override {
    forward_->set(DNNL_ARG_SRC, tensors.inputs[0]);
    forward_->set(DNNL_ARG_WEIGHTS, tensors.parameters[0]);
    forward_->set(DNNL_ARG_BIAS, tensors.parameters[1]);
    forward_->set(DNNL_ARG_DST, tensors.output);
    forward_->run(static_cast<std::byte*>(tensors.workspace));
  }

  void backward(const Tensors& tensors, const Pass& /*pass*/) override {
    auto* const workspace = static_cast<std::byte*>(tensors.workspace);
    backward_weights_->set(DNNL_ARG_SRC, tensors.inputs[0]);
    backward_weights_->set(DNNL_ARG_DIFF_DST, tensors.output_gradient);
    backward_weights_->set(DNNL_ARG_DIFF_WEIGHTS, tensors.parameter_gradients[0]);
    backward_weights_->set(DNNL_ARG_DIFF_BIAS, tensors.parameter_gradients[1]);
    backward_weights_->run(workspace);
    if (!backward_data_) return;
    backward_data_->set(DNNL_ARG_DIFF_SRC, tensors.input_gradients[0]);
    backward_data_->set(DNNL_ARG_WEIGHTS, tensors.parameters[0]);
    backward_data_->set(DNNL_ARG_DIFF_DST, tensors.output_gradient);
    backward_data_->run(workspace);
  }

 private:
  std::unique_ptr<Kernel> forward_;
  std::unique_ptr<Kernel> backward_weights_;  // null: only evaluates
  std::unique_ptr<Kernel> backward_data_;     // null: nobody needs the input's gradient
};

}  // namespace

std::unique_ptr<Operation> make_linear(const OperationShape& shape) {
  return std::make_unique<LinearLayer>(shape);
}

}  // namespace ddprun::trainer
