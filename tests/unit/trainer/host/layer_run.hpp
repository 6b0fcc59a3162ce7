// One layer by itself, forward and backward, with memory of its own.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/unit/trainer/host/host_executor.hpp"
#include "trainer/compute/numeric.hpp"
#include "trainer/compute/philox.hpp"

namespace ddprun::trainer::test {

/// Uniform in [-1, 1).
inline std::vector<float> uniform_values(std::size_t count, std::uint32_t seed) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto word = philox({{static_cast<std::uint32_t>(i), 0, 0, 0}}, seed, 0).word[0];
    values[i] = 2.0F * unit_uniform(word) - 1.0F;
  }
  return values;
}

/// The largest difference, in units of the largest value that is wanted (at least 1).
inline double distance(const std::vector<float>& got, const std::vector<double>& want) {
  if (got.size() != want.size()) return HUGE_VAL;
  double largest = 1;
  double worst = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::abs(want[i]));
    worst = std::max(worst, std::abs(static_cast<double>(got[i]) - want[i]));
  }
  return worst / largest;
}

/// Values as a layer keeps them.
class StoredValues {
 public:
  StoredValues(Storage storage, const std::vector<float>& values)
      : storage_(storage), floats_(values), halves_(values.size()) {
    for (std::size_t i = 0; i < values.size(); ++i) store(halves_[i], values[i]);
  }
  void* data() {
    return storage_ == Storage::bf16 ? static_cast<void*>(halves_.data()) : floats_.data();
  }
  [[nodiscard]] std::vector<float> floats() const {
    if (storage_ != Storage::bf16) return floats_;
    std::vector<float> values;
    for (const BFloat16 half : halves_) values.push_back(load(half));
    return values;
  }

 private:
  Storage storage_;
  std::vector<float> floats_;
  std::vector<BFloat16> halves_;
};

/// A layer of one storage type (fp32, bf16 or a rounded one), and what it computes of given values.
class LayerRun {
 public:
  LayerRun(const LayerKind& kind, OperationShape shape, int threads = 1)
      : shape_(std::move(shape)), masters_(reads_master(kind)) {
    host().use_threads(threads);
    operation_ = host().make_operation({.kind = kind}, shape_);
    const OperationMemory memory = operation_->memory();
    saved_ = host().allocate(memory.saved);
    workspace_ = host().allocate(memory.workspace);
  }

  std::vector<std::vector<float>> inputs, parameters;
  std::vector<float> output_gradient;
  Pass pass;
  // Filled by run(), with rubbish before.
  std::vector<float> output;
  std::vector<std::vector<float>> input_gradients, parameter_gradients;

  void run() {
    const auto batch = static_cast<std::size_t>(shape_.batch);
    output.assign(batch * shape_.output.count(), 7.0F);
    input_gradients.clear();
    for (const OperationShape::Input& input : shape_.inputs)
      input_gradients.emplace_back(batch * input.shape.count(), 7.0F);
    parameter_gradients.clear();
    for (const auto& parameter : parameters)
      parameter_gradients.emplace_back(parameter.size(), 7.0F);

    const Storage storage = shape_.storage;
    auto stored_inputs = stored(inputs, storage);
    auto stored_parameters = stored(parameters, masters_ ? Storage::fp32 : storage);
    auto stored_gradients = stored(input_gradients, storage);
    StoredValues stored_output(storage, output);
    StoredValues stored_output_gradient(storage, output_gradient);
    const auto at_inputs = addresses<const void*>(stored_inputs);
    const auto at_parameters = addresses<const void*>(stored_parameters);
    auto at_input_gradients = addresses<void*>(stored_gradients);
    const auto at_parameter_gradients = addresses<float*>(parameter_gradients);
    for (std::size_t i = 0; i < shape_.inputs.size(); ++i)
      if (shape_.inputs[i].gradient == GradientUse::none) at_input_gradients[i] = nullptr;
    const Tensors tensors{.inputs = at_inputs,
                          .parameters = at_parameters,
                          .output = stored_output.data(),
                          .saved = saved_.data(),
                          .workspace = workspace_.data(),
                          .output_gradient = stored_output_gradient.data(),
                          .input_gradients = at_input_gradients,
                          .parameter_gradients = at_parameter_gradients};
    operation_->forward(tensors, pass);
    if (shape_.trains) operation_->backward(tensors, pass);
    output = stored_output.floats();
    for (std::size_t i = 0; i < stored_gradients.size(); ++i)
      input_gradients[i] = stored_gradients[i].floats();
  }

 private:
  template <class Pointer, class Vectors>
  static std::vector<Pointer> addresses(Vectors& vectors) {
    std::vector<Pointer> all;
    for (auto& one : vectors) all.push_back(one.data());
    return all;
  }

  static std::vector<StoredValues> stored(const std::vector<std::vector<float>>& values,
                                          Storage storage) {
    std::vector<StoredValues> all;
    for (const auto& one : values) all.emplace_back(storage, one);
    return all;
  }

  OperationShape shape_;
  bool masters_;
  std::unique_ptr<Operation> operation_;
  DeviceMemory saved_, workspace_;
};

}  // namespace ddprun::trainer::test
