// Which operation belongs to which kind of layer; gradients that accumulate.
#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "base/overloaded.hpp"
#include "base/rounded_up.hpp"
#include "trainer/cuda/kernels/element_kernels.hpp"
#include "trainer/cuda/launch.hpp"
#include "trainer/cuda/operations.hpp"

namespace ddprun::trainer::cuda {
namespace {

template <class T>
class AccumulatingOperation final : public Operation {
 public:
  AccumulatingOperation(Gpu& gpu, std::unique_ptr<Operation> inner, const OperationShape& shape)
      : gpu_(gpu), inner_(std::move(inner)), shape_(shape), gradients_(shape.inputs.size()) {
    for (const OperationShape::Input& input : shape_.inputs) {
      places_.push_back(bytes_);
      if (input.gradient == GradientUse::accumulate)
        bytes_ += rounded_up(batch_count(shape_, input.shape) * sizeof(T), kAllocationAlignment);
    }
  }
  [[nodiscard]] OperationMemory memory() const override {
    const OperationMemory inner = inner_->memory();
    return {inner.saved, bytes_ + inner.workspace};
  }
  void forward(const Tensors& tensors, const Pass& pass) override {
    inner_->forward(behind_ours(tensors), pass);
  }
  void backward(const Tensors& tensors, const Pass& pass) override {
    auto* const ours = static_cast<std::byte*>(tensors.workspace);
    for (std::size_t k = 0; k < gradients_.size(); ++k)
      gradients_[k] = accumulates(k) ? ours + places_[k] : tensors.input_gradients[k];
    Tensors inside = behind_ours(tensors);
    inside.input_gradients = gradients_;
    inner_->backward(inside, pass);
    for (std::size_t k = 0; k < gradients_.size(); ++k) {
      if (!accumulates(k)) continue;
      T* const sum = input_gradient_of<T>(tensors, k);
      const std::size_t count = batch_count(shape_, shape_.inputs[k].shape);
      launch_over(gpu_, count, AddValues<T>{sum, static_cast<const T*>(gradients_[k]), sum, count});
    }
  }

 private:
  [[nodiscard]] bool accumulates(std::size_t input) const {
    return shape_.inputs[input].gradient == GradientUse::accumulate;
  }
  [[nodiscard]] Tensors behind_ours(Tensors tensors) const {
    tensors.workspace = static_cast<std::byte*>(tensors.workspace) + bytes_;
    return tensors;
  }

  Gpu& gpu_;
  std::unique_ptr<Operation> inner_;
  OperationShape shape_;
  std::vector<std::size_t> places_;  // in the workspace, of the gradients that accumulate
  std::size_t bytes_ = 0;
  std::vector<void*> gradients_;  // where the inner operation shall write
};

std::unique_ptr<Operation> make_plain(Gpu& gpu, const LayerKind& kind,
                                      const OperationShape& shape) {
  return std::visit(
      Overloaded{
          [](const layer::Images&) { return Made(); },
          [](const layer::Tokens&) { return Made(); },
          [&](const layer::Convolution& one) { return make_convolution(gpu, shape, one.window); },
          [&](const layer::TransposedConvolution& one) {
            return make_transposed_convolution(gpu, shape, one.window);
          },
          [&](const layer::Linear&) { return make_linear(gpu, shape); },
          [&](const layer::Relu&) { return make_relu(gpu, shape); },
          [&](const layer::MaxPool& one) { return make_max_pool(gpu, shape, one.window); },
          [&](const layer::AdaptiveAveragePool&) { return make_adaptive_average_pool(gpu, shape); },
          [&](const layer::BatchNorm& one) { return make_batch_norm(gpu, shape, one.relu); },
          [&](const layer::Dropout& one) { return make_dropout(gpu, shape, one); },
          [&](const layer::Flatten&) { return make_flatten(gpu, shape); },
          [&](const layer::Add&) { return make_add(gpu, shape); },
          [&](const layer::Upsample&) { return make_upsample(gpu, shape); },
          [&](const layer::Concat&) { return make_concat(gpu, shape); },
          [&](const layer::Embedding&) { return make_embedding(gpu, shape); },
          [&](const layer::LayerNorm&) { return make_layer_norm(gpu, shape); },
          [&](const layer::Gelu&) { return make_gelu(gpu, shape); },
          [&](const layer::Tanh&) { return make_tanh(gpu, shape); },
          [&](const layer::AttentionProjection&) { return make_attention_projection(gpu, shape); },
          [&](const layer::Attention& one) { return make_attention(gpu, shape, one); },
          [&](const layer::FirstToken&) { return make_first_token(gpu, shape); },
          [&](const layer::SoftmaxCrossEntropy&) { return make_softmax_cross_entropy(gpu, shape); },
          [&](const layer::BinaryCrossEntropy& one) {
            return make_binary_cross_entropy(gpu, shape, one.positive_weight);
          },
      },
      kind);
}

}  // namespace

std::unique_ptr<Operation> accumulating(Gpu& gpu, std::unique_ptr<Operation> inner,
                                        const OperationShape& shape) {
  return for_storage(shape.storage, [&]<class T>(T) -> std::unique_ptr<Operation> {
    return std::make_unique<AccumulatingOperation<T>>(gpu, std::move(inner), shape);
  });
}

std::unique_ptr<Operation> make_operation(Gpu& gpu, const Layer& layer,
                                          const OperationShape& shape) {
  std::unique_ptr<Operation> operation = make_plain(gpu, layer.kind, shape);
  const bool accumulates =
      std::any_of(shape.inputs.begin(), shape.inputs.end(),
                  [](const auto& input) { return input.gradient == GradientUse::accumulate; });
  return accumulates ? accumulating(gpu, std::move(operation), shape) : std::move(operation);
}

}  // namespace ddprun::trainer::cuda
