#include "trainer/host/wrapped_operations.hpp"

#include <algorithm>
#include <utility>

#include "trainer/host/host_loops.hpp"
#include "trainer/host/operations.hpp"

namespace ddprun::trainer {
namespace {

class AccumulatingOperation final : public Operation {
 public:
  AccumulatingOperation(std::unique_ptr<Operation> inner, const OperationShape& shape)
      : inner_(std::move(inner)), shape_(shape), gradients_(shape.inputs.size()) {
    for (const OperationShape::Input& input : shape_.inputs) {
      places_.push_back(bytes_);
      if (input.gradient == GradientUse::accumulate)
        bytes_ += (batch_count(shape_, input.shape) * sizeof(float) + 63) / 64 * 64;
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
      const std::size_t count = batch_count(shape_, shape_.inputs[k].shape);
      const std::span<float> sum{input_gradient_of(tensors, k), count};
      add(sum, {static_cast<const float*>(gradients_[k]), count}, sum);
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

  std::unique_ptr<Operation> inner_;
  OperationShape shape_;
  std::vector<std::size_t> places_;  // in the workspace, of the gradients that accumulate
  std::size_t bytes_ = 0;
  std::vector<void*> gradients_;  // where the inner operation shall write
};

class RoundedOperation final : public Operation {
 public:
  RoundedOperation(std::unique_ptr<Operation> inner, const OperationShape& shape)
      : inner_(std::move(inner)), shape_(shape) {}

  [[nodiscard]] OperationMemory memory() const override { return inner_->memory(); }

  void forward(const Tensors& tensors, const Pass& pass) override {
    inner_->forward(tensors, pass);
    round_to_storage(shape_.storage, {output_of(tensors), batch_count(shape_, shape_.output)});
  }

  void backward(const Tensors& tensors, const Pass& pass) override {
    inner_->backward(tensors, pass);
    for (std::size_t k = 0; k < shape_.inputs.size(); ++k) {
      float* const gradient = input_gradient_of(tensors, k);
      if (gradient != nullptr)
        round_to_storage(shape_.storage, {gradient, batch_count(shape_, shape_.inputs[k].shape)});
    }
  }

 private:
  std::unique_ptr<Operation> inner_;
  OperationShape shape_;
};

}  // namespace

std::unique_ptr<Operation> accumulating(std::unique_ptr<Operation> inner,
                                        const OperationShape& shape) {
  return std::make_unique<AccumulatingOperation>(std::move(inner), shape);
}

std::unique_ptr<Operation> rounded(std::unique_ptr<Operation> inner, const OperationShape& shape) {
  return std::make_unique<RoundedOperation>(std::move(inner), shape);
}

}  // namespace ddprun::trainer
