// The norm of all gradients, summed in parts that do not depend on threads, lanes or the device.
//
// Weights are cut into blocks of kNormLanes x kNormRows floats. In a block each lane sums its
// squares, row after row, in double; then kNormRun sums in a row are added, again and again, until
// one is left.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainer/compute/host_device.hpp"
#include "trainer/compute/step_state.hpp"
#include "trainer/model/parameter.hpp"

namespace ddprun::trainer {

inline constexpr std::size_t kNormLanes = 32;
inline constexpr std::size_t kNormRows = 64;
inline constexpr std::size_t kNormRun = 64;

/// Floats of one weight, in the gradients' arena.
struct NormBlock {
  std::uint64_t begin = 0;
  std::uint32_t count = 0;  ///< at most kNormLanes * kNormRows
};

/// The blocks of all weights; statistics have no gradients.
std::vector<NormBlock> norm_blocks(const std::vector<Parameter>& parameters);

/// Sums that are left of `count` after one more round.
DDPRUN_HOST_DEVICE constexpr std::size_t norm_runs(std::size_t count) {
  return (count + kNormRun - 1) / kNormRun;
}

/// The sum of lane `lane` of a block; its squares are exact in double.
DDPRUN_HOST_DEVICE inline double sum_squares(const float* block, std::size_t count,
                                             std::size_t lane) {
  double sum = 0;
  for (std::size_t i = lane; i < count; i += kNormLanes)
    sum += static_cast<double>(block[i]) * static_cast<double>(block[i]);
  return sum;
}

/// The sum of the sums in run `run`.
DDPRUN_HOST_DEVICE inline double sum_run(const double* sums, std::size_t count, std::size_t run) {
  const std::size_t begin = run * kNormRun;
  const std::size_t end = begin + kNormRun < count ? begin + kNormRun : count;
  double sum = 0;
  for (std::size_t i = begin; i < end; ++i) sum += sums[i];
  return sum;
}

/// `squares`: of gradients that still carry the loss scale.
DDPRUN_HOST_DEVICE inline void set_gradient_norm(double squares, StepState& state) {
  state.gradient_norm = std::sqrt(squares) / static_cast<double>(state.scaler.scale);
}

}  // namespace ddprun::trainer
