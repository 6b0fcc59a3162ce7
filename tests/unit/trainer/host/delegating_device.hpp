// A device that passes every call on to another one: what a test wants to see or to change is
// overridden.
#pragma once

#include <memory>
#include <string>

#include "trainer/compute/device.hpp"

namespace ddprun::trainer::test {

class DelegatingDevice : public Device {
 public:
  explicit DelegatingDevice(Device& device) : device_(device) {}

  [[nodiscard]] std::string description(Precision precision) const override {
    return device_.description(precision);
  }
  [[nodiscard]] Storage storage(Precision precision) const override {
    return device_.storage(precision);
  }
  void use_threads(int threads) override { device_.use_threads(threads); }
  void copy_in(std::span<const std::byte> host, void* to) override { device_.copy_in(host, to); }
  void copy_out(const void* from, std::span<std::byte> host) override {
    device_.copy_out(from, host);
  }
  void copy_in(Storage storage, std::span<const float> host, void* to) override {
    device_.copy_in(storage, host, to);
  }
  void copy(std::span<const std::byte> from, std::byte* to) override { device_.copy(from, to); }
  void clear(std::span<std::byte> memory) override { device_.clear(memory); }
  void feed(const Inputs& inputs) override { device_.feed(inputs); }
  std::unique_ptr<Operation> make_operation(const Layer& layer,
                                            const OperationShape& shape) override {
    return device_.make_operation(layer, shape);
  }
  void store(Storage storage, std::span<const float> from, void* to) override {
    device_.store(storage, from, to);
  }
  void add_into(std::span<float> sum, const float* addend) override {
    device_.add_into(sum, addend);
  }
  void find_non_finite(std::span<const float> values, StepState& state) override {
    device_.find_non_finite(values, state);
  }
  std::unique_ptr<ArenaUpdate> make_update(const OptimizerConfig& config,
                                           std::span<const Parameter> parameters,
                                           int shards) override {
    return device_.make_update(config, parameters, shards);
  }
  void finish_step(const ScalerConfig& config, StepState& state) override {
    device_.finish_step(config, state);
  }
  std::uint64_t hash(std::span<const float> values) override { return device_.hash(values); }
  [[nodiscard]] bool accumulates_gradients() const override {
    return device_.accumulates_gradients();
  }
  DeviceMemory allocate(std::size_t bytes) override { return device_.allocate(bytes); }
  [[nodiscard]] std::size_t peak_bytes() const override { return device_.peak_bytes(); }
  [[nodiscard]] bool can_capture() const override { return device_.can_capture(); }
  std::unique_ptr<CapturedWork> capture(const std::function<void()>& work) override {
    return device_.capture(work);
  }

 private:
  Device& device_;
};

}  // namespace ddprun::trainer::test
