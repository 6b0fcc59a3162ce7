// Another device whose memory is counted: how much of it there was at most at one time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>

#include "trainer/compute/device.hpp"

namespace ddprun::trainer::test {

class CountingDevice final : public Device {
 public:
  explicit CountingDevice(Device& device) : device_(device) {}

  [[nodiscard]] std::size_t most_bytes() const { return most_; }

  DeviceMemory allocate(std::size_t bytes) override {
    auto memory = std::make_shared<DeviceMemory>(device_.allocate(bytes));
    now_ += bytes;
    most_ = std::max(most_, now_);
    std::byte* const data = memory->data();
    return DeviceMemory(data, bytes, [this, bytes, memory](std::byte*) mutable {
      now_ -= bytes;
      memory.reset();
    });
  }

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
  void clear(std::span<std::byte> memory) override { device_.clear(memory); }
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

 private:
  Device& device_;
  std::size_t now_ = 0;
  std::size_t most_ = 0;
};

}  // namespace ddprun::trainer::test
