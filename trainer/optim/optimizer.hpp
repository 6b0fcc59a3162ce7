// SGD and AdamW over the flat arenas: one fused pass per step, any partition of the arena, no
// decision on the host.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trainer/compute/device.hpp"
#include "trainer/compute/optimizer_math.hpp"
#include "trainer/compute/step_state.hpp"
#include "trainer/model/parameter.hpp"

namespace ddprun::trainer {

/// The arenas of moments that it has: sgd "momentum_buffer" (none if momentum is 0); adamw
/// "exp_avg", "exp_avg_sq".
std::vector<std::string> moment_names(const OptimizerConfig& config);

/// Owns the moments, in the device's memory. One step is: for ranges that together cover the arena,
/// in any order and from any threads, device.find_non_finite(gradients of the range, state) (only
/// with loss scaling); then, when every range was looked at, measure_norm() and update(begin, end,
/// ...) of any partition; and at last device.finish_step(scaler_config, state), once.
class Optimizer {
 public:
  /// `parameters` is the model's table. Gradients are sums over `shards`. The device
  /// outlives the optimizer. Throws std::invalid_argument where PyTorch's constructor would (a
  /// negative rate of decay, a beta outside [0, 1), Nesterov without momentum).
  Optimizer(const OptimizerConfig& config, std::vector<Parameter> parameters,
            std::size_t arena_size, Device& device, int shards = 1);

  /// Measures the norm of all gradients, once before update(); does nothing where they are not
  /// clipped.
  void measure_norm(std::span<const float> gradients, StepState& state);

  /// Updates the parameters of arena elements [begin, end) from `gradients`, which still carry the
  /// loss scale; learning rate, scale, flag and step are read from `state` where the device
  /// computes. Changes nothing if state.found_inf is set. Both are whole arenas. Each element's new
  /// value depends on that element alone: the bits do not depend on the partition.
  void update(std::size_t begin, std::size_t end, float* parameters, const float* gradients,
              const StepState& state);

  [[nodiscard]] const OptimizerConfig& config() const { return config_; }

  /// The arenas that a checkpoint must keep.
  struct Moment {
    std::string name;
    DeviceMemory values;
  };
  [[nodiscard]] std::span<const Moment> moments() const { return moments_; }

 private:
  OptimizerConfig config_;
  std::unique_ptr<ArenaUpdate> update_;
  std::vector<Moment> moments_;
};

}  // namespace ddprun::trainer
