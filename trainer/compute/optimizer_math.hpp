// The arithmetic of one optimizer step, for host and device: PyTorch's formulas, one element at a
// time.
#pragma once

#include <cmath>
#include <cstdint>

#include "trainer/compute/host_device.hpp"
#include "trainer/compute/step_state.hpp"

namespace ddprun::trainer {

enum class OptimizerKind { sgd, adamw };

/// PyTorch's names and formulas (torch.optim.SGD without dampening, torch.optim.AdamW without
/// amsgrad).
struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::sgd;
  double weight_decay = 0;
  bool decays_all = false;  ///< biases and norms too, as PyTorch does by default
  double momentum = 0.9;    ///< sgd
  bool nesterov = false;    ///< sgd; needs momentum > 0
  double beta1 = 0.9;       ///< adamw
  double beta2 = 0.999;     ///< adamw
  double epsilon = 1e-8;    ///< adamw
  double clip_norm = 0;     ///< the greatest norm of all gradients together; 0: any
};

/// torch.nn.utils.clip_grad_norm_'s factor on all gradients. A norm that is nan makes it nan.
DDPRUN_HOST_DEVICE inline double clip_factor(const OptimizerConfig& config, double norm) {
  if (config.clip_norm <= 0) return 1;
  const double factor = config.clip_norm / (norm + 1e-6);
  return factor > 1 ? 1 : factor;
}

/// What all elements of one optimizer step share. Computed where the step runs, from the StepState
/// there.
struct UpdateScalars {
  float gradient_factor = 1;  ///< takes the loss scale away, and clips
  float learning_rate = 0;
  float momentum = 0;
  float step_size = 0;          ///< adamw: rate / (1 - beta1^t)
  float second_correction = 1;  ///< adamw: sqrt(1 - beta2^t)
  float beta1_complement = 0;   ///< 1 - beta1
  float beta2 = 0;
  float beta2_complement = 0;  ///< 1 - beta2
  float epsilon = 0;
};

/// base^exponent by squaring: the same bits everywhere, unlike a library's pow.
DDPRUN_HOST_DEVICE inline double integer_power(double base, std::uint64_t exponent) {
  double result = 1;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result *= base;
    base *= base;
  }
  return result;
}

/// In double until the end, as PyTorch's Python code computes them.
DDPRUN_HOST_DEVICE inline UpdateScalars update_scalars(const OptimizerConfig& config,
                                                       const StepState& state) {
  const std::uint64_t step = state.updates + 1;
  UpdateScalars scalars;
  scalars.gradient_factor = static_cast<float>(clip_factor(config, state.gradient_norm) /
                                               static_cast<double>(state.scaler.scale));
  scalars.learning_rate = state.learning_rate;
  scalars.momentum = static_cast<float>(config.momentum);
  scalars.step_size = static_cast<float>(static_cast<double>(state.learning_rate) /
                                         (1.0 - integer_power(config.beta1, step)));
  scalars.second_correction =
      static_cast<float>(std::sqrt(1.0 - integer_power(config.beta2, step)));
  scalars.beta1_complement = static_cast<float>(1.0 - config.beta1);
  scalars.beta2 = static_cast<float>(config.beta2);
  scalars.beta2_complement = static_cast<float>(1.0 - config.beta2);
  scalars.epsilon = static_cast<float>(config.epsilon);
  return scalars;
}

/// torch.optim.SGD, dampening 0. A momentum buffer of zeros gives PyTorch's first step.
template <bool kMomentum, bool kNesterov>
struct SgdUpdate {
  UpdateScalars scalars;
  float decay;

  DDPRUN_HOST_DEVICE void operator()(float& parameter, float scaled_gradient, float& buffer) const {
    float gradient = scaled_gradient * scalars.gradient_factor + decay * parameter;
    if constexpr (kMomentum) {
      buffer = scalars.momentum * buffer + gradient;
      gradient = kNesterov ? gradient + scalars.momentum * buffer : buffer;
    }
    parameter -= scalars.learning_rate * gradient;
  }
};

/// A running mean or variance: PyTorch's, with the mean over the shards in the place of the
/// batch's.
struct MixStatistic {
  float share;  ///< 1 / V: the sum is over V shards, and carries no loss scale

  DDPRUN_HOST_DEVICE void operator()(float& running, float sum) const {
    running = 0.9F * running + 0.1F * (sum * share);
  }
};

/// What AdamW's decoupled decay leaves of a parameter.
DDPRUN_HOST_DEVICE inline float keep_factor(float learning_rate, double weight_decay) {
  return static_cast<float>(1.0 - static_cast<double>(learning_rate) * weight_decay);
}

/// torch.optim.AdamW: decay first and apart from the moments, epsilon outside the root.
struct AdamWUpdate {
  UpdateScalars scalars;
  float keep;  ///< 1 - rate * decay, see `keep_factor`

  DDPRUN_HOST_DEVICE void operator()(float& parameter, float scaled_gradient, float& first,
                                     float& second) const {
    const float gradient = scaled_gradient * scalars.gradient_factor;
    first += scalars.beta1_complement * (gradient - first);
    second = scalars.beta2 * second + scalars.beta2_complement * gradient * gradient;
    const float denominator = std::sqrt(second) / scalars.second_correction + scalars.epsilon;
    parameter = keep * parameter - scalars.step_size * (first / denominator);
  }
};

}  // namespace ddprun::trainer
