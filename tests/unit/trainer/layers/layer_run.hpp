// One layer by itself, forward and backward, with memory of its own.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tests/unit/trainer/layers/layer_device.hpp"
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

/// Values in the memory of the device, as a layer keeps them.
class StoredValues {
 public:
  StoredValues(Storage storage, const std::vector<float>& values)
      : storage_(storage), count_(values.size()), memory_(device().allocate(bytes())) {
    device().copy_in(storage, values, memory_.data());
  }
  [[nodiscard]] void* data() const { return memory_.data(); }
  [[nodiscard]] std::vector<float> floats() const {
    switch (storage_) {
      case Storage::bf16:
        return taken<BFloat16>();
      case Storage::fp16:
        return taken<Half>();
      case Storage::fp32:
      case Storage::rounded_to_bf16:
      case Storage::rounded_to_fp16:
        break;
    }
    return taken<float>();
  }

 private:
  [[nodiscard]] std::size_t bytes() const { return count_ * bytes_of(storage_); }
  template <class T>
  [[nodiscard]] std::vector<float> taken() const {
    std::vector<T> stored(count_);
    device().copy_out(memory_.data(), std::as_writable_bytes(std::span(stored)));
    std::vector<float> values;
    for (const T one : stored) values.push_back(load(one));
    return values;
  }

  Storage storage_;
  std::size_t count_;
  DeviceMemory memory_;
};

/// What a pass points to, in the memory of the device. `pass` itself points to the host's.
class StoredPass {
 public:
  StoredPass(const Pass& pass, const LayerKind& kind, const OperationShape& shape) : there_(pass) {
    const auto batch = static_cast<std::size_t>(shape.batch);
    const auto count = static_cast<std::size_t>(pass.count);
    // What other kinds are given may be shorter.
    if (!is_loss(kind)) there_.labels = nullptr;
    if (!is_loss(kind) || target_of(kind) != Target::mask) there_.masks = nullptr;
    move(there_.labels, count);
    move(there_.masks, count * shape.inputs[0].shape.count());
    move(there_.tokens, batch * static_cast<std::size_t>(shape.output.width));
    move(there_.lengths, batch);
    move(there_.state, 1);
    move(there_.shard, 1);
    if (pass.counters != nullptr) {
      host_counters_ = pass.counters;
      const Counters* counters = pass.counters;
      move(counters, 1);
      there_.counters = const_cast<Counters*>(counters);
    }
  }
  [[nodiscard]] const Pass& there() const { return there_; }
  void take_counters() const {
    if (host_counters_ != nullptr)
      device().copy_out(there_.counters, std::as_writable_bytes(std::span(host_counters_, 1)));
  }

 private:
  template <class T>
  void move(const T*& pointer, std::size_t count) {
    if (pointer == nullptr) return;
    memory_.push_back(device().allocate(count * sizeof(T)));
    device().copy_in(std::as_bytes(std::span(pointer, count)), memory_.back().data());
    pointer = memory_.back().as<T>().data();
  }

  Pass there_;
  Counters* host_counters_ = nullptr;
  std::vector<DeviceMemory> memory_;
};

/// A layer of one storage type, and what it computes of given values.
class LayerRun {
 public:
  LayerRun(const LayerKind& kind, OperationShape shape, int threads = 1)
      : kind_(kind), shape_(std::move(shape)), masters_(reads_master(kind)) {
    device().use_threads(threads);
    operation_ = device().make_operation({.kind = kind}, shape_);
    const OperationMemory memory = operation_->memory();
    saved_ = device().allocate(memory.saved);
    workspace_ = device().allocate(memory.workspace);
  }

  std::vector<std::vector<float>> inputs, parameters;
  std::vector<float> output_gradient;
  Pass pass;
  bool accumulates = false;  ///< gradients of parameters are added to kThere
  static constexpr float kThere = 7;
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
      parameter_gradients.emplace_back(parameter.size(), kThere);

    const Storage storage = shape_.storage;
    const auto stored_inputs = stored(inputs, storage);
    const auto stored_parameters = stored(parameters, masters_ ? Storage::fp32 : storage);
    const auto stored_gradients = stored(input_gradients, storage);
    const auto stored_parameter_gradients = stored(parameter_gradients, Storage::fp32);
    const StoredValues stored_output(storage, output);
    const StoredValues stored_output_gradient(storage, output_gradient);
    const StoredPass stored_pass(pass, kind_, shape_);
    const auto at_inputs = addresses<const void*>(stored_inputs);
    const auto at_parameters = addresses<const void*>(stored_parameters);
    auto at_input_gradients = addresses<void*>(stored_gradients);
    const auto at_parameter_gradients = addresses<float*>(stored_parameter_gradients);
    for (std::size_t i = 0; i < shape_.inputs.size(); ++i)
      if (shape_.inputs[i].gradient == GradientUse::none) at_input_gradients[i] = nullptr;
    const Tensors tensors{.inputs = at_inputs,
                          .parameters = at_parameters,
                          .output = stored_output.data(),
                          .saved = saved_.data(),
                          .workspace = workspace_.data(),
                          .output_gradient = stored_output_gradient.data(),
                          .input_gradients = at_input_gradients,
                          .parameter_gradients = at_parameter_gradients,
                          .accumulates = accumulates};
    operation_->forward(tensors, stored_pass.there());
    if (shape_.trains) operation_->backward(tensors, stored_pass.there());
    stored_pass.take_counters();
    output = stored_output.floats();
    for (std::size_t i = 0; i < stored_gradients.size(); ++i)
      input_gradients[i] = stored_gradients[i].floats();
    for (std::size_t i = 0; i < parameter_gradients.size(); ++i)
      parameter_gradients[i] = stored_parameter_gradients[i].floats();
  }

 private:
  template <class Pointer>
  static std::vector<Pointer> addresses(const std::vector<StoredValues>& values) {
    std::vector<Pointer> all;
    for (const auto& one : values) all.push_back(static_cast<Pointer>(one.data()));
    return all;
  }

  static std::vector<StoredValues> stored(const std::vector<std::vector<float>>& values,
                                          Storage storage) {
    std::vector<StoredValues> all;
    for (const auto& one : values) all.emplace_back(storage, one);
    return all;
  }

  LayerKind kind_;
  OperationShape shape_;
  bool masters_;
  std::unique_ptr<Operation> operation_;
  DeviceMemory saved_, workspace_;
};

}  // namespace ddprun::trainer::test
