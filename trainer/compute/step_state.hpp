// The few numbers that a training step reads where it computes: never read by the host within a
// step, on any device.
#pragma once

#include <cstdint>

#include "trainer/compute/host_device.hpp"

namespace ddprun::trainer {

/// Dynamic loss scale: torch.amp.GradScaler's rule and constants, with the ceiling and floor that
/// it lacks.
struct ScalerConfig {
  bool enabled = false;  ///< false: the scale stays 1, and nobody needs to look for infs
  float initial = 65536.0F;
  float growth = 2.0F;
  float backoff = 0.5F;
  std::uint32_t growth_interval = 2000;  ///< good steps in a row before the scale grows
  float ceiling = 16777216.0F;           ///< 2^24
  float floor = 1.0F;
};

struct ScalerState {
  float scale = 1.0F;
  std::uint32_t good_steps = 0;  ///< in a row, since the scale last changed
};

inline bool operator==(const ScalerState& a, const ScalerState& b) {
  return a.scale == b.scale && a.good_steps == b.good_steps;
}

DDPRUN_HOST_DEVICE inline ScalerState initial_scaler(const ScalerConfig& config) {
  return {config.enabled ? config.initial : 1.0F, 0};
}

/// What to go on with after a checkpoint that another configuration may have written. Pure.
DDPRUN_HOST_DEVICE inline ScalerState resumed_scaler(const ScalerConfig& config,
                                                     ScalerState state) {
  if (!config.enabled) return initial_scaler(config);
  if (state.scale < config.floor) state.scale = config.floor;
  if (state.scale > config.ceiling) state.scale = config.ceiling;
  return state;
}

/// The scaler after one step; `found_inf`: its gradients held an inf or nan. Pure.
DDPRUN_HOST_DEVICE inline ScalerState next_scaler(const ScalerConfig& config, ScalerState state,
                                                  bool found_inf) {
  if (!config.enabled) return state;
  if (found_inf) {
    const float lower = state.scale * config.backoff;
    return {lower < config.floor ? config.floor : lower, 0};
  }
  if (state.good_steps + 1 < config.growth_interval) return {state.scale, state.good_steps + 1};
  const float higher = state.scale * config.growth;
  return {higher > config.ceiling ? config.ceiling : higher, 0};
}

/// Trivially copyable: a checkpoint stores it as it is, a GPU holds one in its memory.
struct StepState {
  float learning_rate = 0;  ///< written by the host before the step
  ScalerState scaler;       ///< executors read &scaler.scale as their loss scale
  std::uint32_t found_inf = 0;
  /// Steps that changed the parameters: the `step` of AdamW's bias correction.
  std::uint64_t updates = 0;
  std::uint64_t skipped = 0;  ///< steps skipped because of an inf or nan
  std::uint64_t stuck = 0;    ///< of these the last ones in a row at which the scale was lowest
  double gradient_norm = 0;   ///< of this step or the last one; measured only where it is clipped
};

/// The number of the shard in hand, which a device keeps beside the state; null: 0.
DDPRUN_HOST_DEVICE inline std::int32_t shard_number(const std::int32_t* shard) {
  return shard == nullptr ? 0 : *shard;
}

/// In the whole run; also the number of the step under way.
DDPRUN_HOST_DEVICE inline std::uint64_t steps_done(const StepState& state) {
  return state.updates + state.skipped;
}

/// Closes a step after the last range was updated: counts it, moves the loss scale, clears the
/// flag.
DDPRUN_HOST_DEVICE inline void finish_step(const ScalerConfig& config, StepState& state) {
  const bool skipped = state.found_inf != 0;
  state.stuck = skipped && state.scaler.scale <= config.floor ? state.stuck + 1 : 0;
  if (skipped) {
    ++state.skipped;
  } else {
    ++state.updates;
  }
  state.scaler = next_scaler(config, state.scaler, skipped);
  state.found_inf = 0;
}

}  // namespace ddprun::trainer
