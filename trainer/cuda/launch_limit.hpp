// How far ahead of a GPU the host may be. CUDA blocks a launch once about 1000 operations of a
// stream are pending, and calls no watch meanwhile. So the host waits earlier, in synchronize().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "trainer/cuda/gpu.hpp"

namespace ddprun::trainer::cuda {

/// Kernels behind one call of a library, estimated high: a product with a depth that is split has
/// two, a convolution may convert its tensors before and after.
inline constexpr std::uint64_t kProductOperations = 2;
inline constexpr std::uint64_t kConvolutionOperations = 4;

/// When to record an event in one stream, and for which one to wait. Pure.
class LaunchLimit {
 public:
  static constexpr std::uint64_t kOperationsPerEvent = 256;
  /// So the host waits at the latest with 768 operations and the last call's pending. Records and
  /// waits of events are not counted; the rest of the 1000 is theirs.
  static constexpr std::size_t kEvents = 3;

  /// Numbers of events, 0 to kEvents - 1. First one is recorded, then the other is waited for.
  struct Step {
    std::optional<std::size_t> record, wait;
  };
  /// After a call that gave the stream `operations`.
  Step add(std::uint64_t operations) {
    operations_ += operations;
    if (operations_ < kOperationsPerEvent) return {};
    operations_ = 0;
    const std::size_t newest = recorded_++ % kEvents;
    if (recorded_ < kEvents) return {.record = newest, .wait = {}};
    return {.record = newest, .wait = recorded_ % kEvents};
  }

 private:
  std::uint64_t operations_ = 0;  // since the newest event
  std::size_t recorded_ = 0;
};

/// A LaunchLimit for each stream of a GPU.
class LaunchLimits {
 public:
  explicit LaunchLimits(Gpu& gpu) : gpu_(gpu) {}

  /// After a call that gave `stream` so many operations, outside captures. May wait, under the
  /// GPU's watch.
  void add(Stream stream, std::uint64_t operations) {
    OfStream& one = streams_[static_cast<std::size_t>(stream)];
    const LaunchLimit::Step step = one.limit.add(operations);
    if (step.record) gpu_.record(event(one, *step.record), stream);
    if (step.wait) gpu_.synchronize(event(one, *step.wait));
  }

 private:
  struct OfStream {
    LaunchLimit limit;
    std::array<std::optional<Event>, LaunchLimit::kEvents> events;
  };
  Event event(OfStream& one, std::size_t number) {
    std::optional<Event>& slot = one.events[number];
    if (!slot) slot = gpu_.make_event();
    return *slot;
  }

  Gpu& gpu_;
  std::array<OfStream, kStreams> streams_;
};

}  // namespace ddprun::trainer::cuda
