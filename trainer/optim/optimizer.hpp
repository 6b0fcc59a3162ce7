// SGD and AdamW over the flat arenas: one fused pass per step, any partition of the arena, no
// decision on the host.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "trainer/compute/buffer.hpp"
#include "trainer/compute/optimizer_math.hpp"
#include "trainer/compute/step_state.hpp"
#include "trainer/model/model.hpp"

namespace ddprun::trainer {

/// Owns the moments. One step is: for ranges that together cover the arena, in any order and from
/// any threads,
///   state.found_inf |= has_non_finite(gradients of the range)    (only with loss scaling)
/// then, when every range was looked at,
///   optimizer.update(begin, end, parameters, gradients, state)   (any partition)
/// and at last finish_step(scaler_config, state), once.
class Optimizer {
 public:
  /// `parameters` is the model's table; it is copied. Throws std::invalid_argument where PyTorch's
  /// constructor would (a negative rate of decay, a beta outside [0, 1), Nesterov without
  /// momentum).
  Optimizer(const OptimizerConfig& config, std::vector<Parameter> parameters,
            std::size_t arena_size);

  /// Updates the parameters of arena elements [begin, end) from `gradients`, which still carry the
  /// loss scale; reads learning rate, scale, flag and step from `state`. Changes nothing if
  /// state.found_inf is set. Both spans are whole arenas. Each element's new value depends on that
  /// element alone: the bits do not depend on the partition.
  void update(std::size_t begin, std::size_t end, std::span<float> parameters,
              std::span<const float> gradients, const StepState& state);

  [[nodiscard]] const OptimizerConfig& config() const { return config_; }

  /// The arenas that a checkpoint must keep: sgd "momentum_buffer" (none if momentum is 0); adamw
  /// "exp_avg", "exp_avg_sq".
  struct Moment {
    std::string name;
    FloatBuffer values;
  };
  [[nodiscard]] std::span<Moment> moments() { return moments_; }
  [[nodiscard]] std::span<const Moment> moments() const { return moments_; }

 private:
  OptimizerConfig config_;
  std::vector<Parameter> parameters_;  // by rising offset
  std::vector<Moment> moments_;
};

/// Whether any value is an inf or a nan.
bool has_non_finite(std::span<const float> values);

}  // namespace ddprun::trainer
