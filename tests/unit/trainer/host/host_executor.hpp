// A graph on the CPU. A test may look at the memory.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "trainer/compute/graph_executor.hpp"
#include "trainer/host/host_device.hpp"

namespace ddprun::trainer::test {

/// One that rounds bf16, as on a CPU without instructions for it.
inline Device& rounding_host() {
  static const std::unique_ptr<Device> device = make_host_device(Bf16::rounded);
  return *device;
}

/// One for all tests of a program.
inline Device& host() {
  static const std::unique_ptr<Device> device = make_host_device();
  return *device;
}

class HostExecutor {
 public:
  HostExecutor(const Graph& graph, int batch, Precision precision = Precision::fp32,
               int threads = 1, Device& device = host())
      : device_(device),
        storage_(device.storage(precision)),
        executor_(graph, device, {.batch = batch, .precision = precision, .threads = threads}) {}

  /// One shard of `shards`.
  Counters train(
      const Batch& batch, std::span<const float> parameters, float scale, int shards,
      std::span<float> gradients,
      const std::function<void(std::size_t)>& final_up_to = [](std::size_t) {}) {
    StepState state;
    state.scaler.scale = scale;
    Counters counters;
    executor_.train(batch, weights(parameters), {.state = &state, .shards = shards});
    executor_.loss(counters);
    executor_.backward({.floats = gradients}, final_up_to);
    return counters;
  }

  Counters evaluate(const Batch& batch, std::span<const float> parameters) {
    Counters counters;
    executor_.evaluate(batch, weights(parameters));
    executor_.loss(counters);
    return counters;
  }

  [[nodiscard]] std::size_t bytes() const { return executor_.bytes(); }

 private:
  Weights weights(std::span<const float> parameters) {
    if (storage_ == Storage::fp32) return {parameters.data(), parameters.data()};
    stored_.resize(parameters.size());
    device_.store(storage_, parameters, stored_.data());
    return {parameters.data(), stored_.data()};
  }

  Device& device_;
  Storage storage_;
  GraphExecutor executor_;
  std::vector<float> stored_;
};

/// The sum over the samples.
inline double loss_of(const Counters& counters) {
  return static_cast<double>(counters.loss) * kLossUnit;
}

}  // namespace ddprun::trainer::test
