
#include <algorithm>
#include <utility>

#include "trainer/host/host_loops.hpp"
#include "trainer/host/operations.hpp"

namespace ddprun::trainer {
namespace {

/// Bytes of so many values in a workspace, where the next ones begin on a 64-byte boundary again.
std::size_t aligned_bytes(std::size_t count, Storage storage) {
  return (count * bytes_of(storage) + 63) / 64 * 64;
}

class AccumulatingOperation final : public Operation {
 public:
  AccumulatingOperation(std::unique_ptr<Operation> inner, const OperationShape& shape)
      : inner_(std::move(inner)), shape_(shape), gradients_(shape.inputs.size()) {
    for (const OperationShape::Input& input : shape_.inputs) {
      places_.push_back(bytes_);
      if (input.gradient == GradientUse::accumulate)
        bytes_ += aligned_bytes(batch_count(shape_, input.shape), shape_.storage);
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
      if (shape_.storage == Storage::bf16) {
        add_to<BFloat16>(tensors.input_gradients[k], gradients_[k], count);
      } else {
        add_to<float>(tensors.input_gradients[k], gradients_[k], count);
      }
    }
  }

 private:
  [[nodiscard]] bool accumulates(std::size_t input) const {
    return shape_.inputs[input].gradient == GradientUse::accumulate;
  }
  template <class T>
  static void add_to(void* sum, const void* addend, std::size_t count) {
    auto* const to = static_cast<T*>(sum);
    add(to, static_cast<const T*>(addend), to, count);
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
    round(output_of(tensors), shape_.output);
  }

  void backward(const Tensors& tensors, const Pass& pass) override {
    inner_->backward(tensors, pass);
    for (std::size_t k = 0; k < shape_.inputs.size(); ++k) {
      float* const gradient = input_gradient_of(tensors, k);
      if (gradient != nullptr) round(gradient, shape_.inputs[k].shape);
    }
  }

 private:
  void round(float* values, const ActivationShape& one) const {
    round_to_storage(shape_.storage, {values, batch_count(shape_, one)}, values);
  }

  std::unique_ptr<Operation> inner_;
  OperationShape shape_;
};

/// The workspace holds the copies one after the other, then what the inner operation wants.
class ConvertedOperation final : public Operation {
 public:
  ConvertedOperation(std::unique_ptr<Operation> inner, const LayerKind& kind,
                     const OperationShape& shape)
      : inner_(std::move(inner)),
        shape_(shape),
        reads_(backward_reads(kind)),
        has_output_(!is_loss(kind)),
        parameters_are_floats_(reads_master(kind)) {
    for (const OperationShape::Input& input : shape_.inputs) {
      inputs_.push_back(make_copy(batch_count(shape_, input.shape)));
      input_gradients_.push_back(
          make_copy(input.gradient == GradientUse::none ? 0 : inputs_.back().count));
    }
    for (const std::size_t count : shape_.parameter_counts)
      parameters_.push_back(make_copy(parameters_are_floats_ ? 0 : count));
    output_ = make_copy(has_output_ ? batch_count(shape_, shape_.output) : 0);
    output_gradient_ = make_copy(shape_.trains ? output_.count : 0);
  }

  [[nodiscard]] OperationMemory memory() const override {
    const OperationMemory inner = inner_->memory();
    return {inner.saved, bytes_ + inner.workspace};
  }

  void forward(const Tensors& tensors, const Pass& pass) override {
    const Tensors inside = floats_of(tensors);
    load_inputs(tensors);
    load_parameters(tensors);
    inner_->forward(inside, pass);
    if (has_output_) put(output_, tensors.output);
  }

  void backward(const Tensors& tensors, const Pass& pass) override {
    const Tensors inside = floats_of(tensors);
    if (reads_.inputs) load_inputs(tensors);
    load_parameters(tensors);
    if (reads_.output) get(tensors.output, output_);
    if (has_output_) get(tensors.output_gradient, output_gradient_);
    inner_->backward(inside, pass);
    for (std::size_t k = 0; k < shape_.inputs.size(); ++k)
      if (tensors.input_gradients[k] != nullptr)
        put(input_gradients_[k], tensors.input_gradients[k]);
  }

 private:
  /// Floats in the workspace.
  struct Copy {
    std::size_t at = 0;
    std::size_t count = 0;
  };

  Copy make_copy(std::size_t count) {
    const Copy copy{bytes_, count};
    bytes_ += aligned_bytes(count, Storage::fp32);
    return copy;
  }
  [[nodiscard]] float* at(const Copy& copy) const {
    return reinterpret_cast<float*>(workspace_ + copy.at);
  }
  void get(const void* from, const Copy& copy) const {
    load_bfloat16(static_cast<const BFloat16*>(from), {at(copy), copy.count});
  }
  void put(const Copy& copy, void* to) const {
    store_bfloat16({at(copy), copy.count}, static_cast<BFloat16*>(to));
  }
  void load_inputs(const Tensors& tensors) const {
    for (std::size_t k = 0; k < inputs_.size(); ++k) get(tensors.inputs[k], inputs_[k]);
  }
  void load_parameters(const Tensors& tensors) const {
    if (parameters_are_floats_) return;
    for (std::size_t k = 0; k < parameters_.size(); ++k) get(tensors.parameters[k], parameters_[k]);
  }

  /// The tensors as the inner operation sees them.
  Tensors floats_of(const Tensors& tensors) {
    workspace_ = static_cast<std::byte*>(tensors.workspace);
    input_places_.clear();
    gradient_places_.clear();
    for (const Copy& copy : inputs_) input_places_.push_back(at(copy));
    for (const Copy& copy : input_gradients_)
      gradient_places_.push_back(copy.count == 0 ? nullptr : at(copy));
    Tensors inside = tensors;
    inside.inputs = input_places_;
    inside.input_gradients = gradient_places_;
    if (!parameters_are_floats_) {
      parameter_places_.clear();
      for (const Copy& copy : parameters_) parameter_places_.push_back(at(copy));
      inside.parameters = parameter_places_;
    }
    if (has_output_) {
      inside.output = at(output_);
      inside.output_gradient = at(output_gradient_);
    }
    inside.workspace = workspace_ + bytes_;
    return inside;
  }

  std::unique_ptr<Operation> inner_;
  OperationShape shape_;
  BackwardReads reads_;
  bool has_output_;
  bool parameters_are_floats_;
  std::size_t bytes_ = 0;
  std::vector<Copy> inputs_, input_gradients_, parameters_;
  Copy output_, output_gradient_;
  std::byte* workspace_ = nullptr;  // of the call under way
  // What the inner operation's tensors point to.
  std::vector<const void*> input_places_, parameter_places_;
  std::vector<void*> gradient_places_;
};

}  // namespace

std::unique_ptr<Operation> accumulating(std::unique_ptr<Operation> inner,
                                        const OperationShape& shape) {
  return std::make_unique<AccumulatingOperation>(std::move(inner), shape);
}

std::unique_ptr<Operation> converted(std::unique_ptr<Operation> inner, const LayerKind& kind,
                                     const OperationShape& shape) {
  return std::make_unique<ConvertedOperation>(std::move(inner), kind, shape);
}

std::unique_ptr<Operation> rounded(std::unique_ptr<Operation> inner, const OperationShape& shape) {
  return std::make_unique<RoundedOperation>(std::move(inner), shape);
}

}  // namespace ddprun::trainer
