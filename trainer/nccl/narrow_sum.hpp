// Gradients on their way to other ranks in two bytes each (--grad-comm). Running statistics stay
// floats.
#pragma once

#include <vector>

#include "trainer/comm/make_communicator.hpp"
#include "trainer/compute/device.hpp"
#include "trainer/cuda/gpu.hpp"
#include "trainer/nccl/nccl_api.hpp"

namespace ddprun::trainer::nccl {

/// `range` without `kept`: ranges that rise and do not overlap. Pure.
std::vector<Range> without(Range range, const std::vector<Range>& kept);
/// The parts of `kept` within `range`. Pure.
std::vector<Range> within(Range range, const std::vector<Range>& kept);

/// A buffer of that type and the conversions, all on the communication stream: one part of a bucket
/// after the other.
class NarrowSum {
 public:
  /// `options.grad_comm` is not fp32.
  NarrowSum(Device& device, cuda::Gpu& gpu, const CommOptions& options);
  /// Bytes of the GPU's memory that it takes.
  static std::size_t bytes(const CommOptions& options);

  /// Floats of the largest part that fits.
  [[nodiscard]] std::size_t part_floats() const { return part_floats_; }
  [[nodiscard]] DataType type() const;
  /// What narrow() wrote: one value for each float of the part.
  [[nodiscard]] void* values() const { return values_.data(); }
  /// What is to be summed as floats, in the arena.
  [[nodiscard]] std::vector<Range> kept(Range part) const { return within(part, kept_); }

  /// Rounded to the nearest; beyond fp16's largest value an inf.
  void narrow(const float* arena, Range part);
  /// All but what is kept.
  void widen(float* arena, Range part);

 private:
  cuda::Gpu& gpu_;
  const Precision precision_;
  const std::vector<Range> kept_;
  const std::size_t part_floats_;
  DeviceMemory values_;
};

}  // namespace ddprun::trainer::nccl
