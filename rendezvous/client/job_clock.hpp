// Job time on an agent: its own clock and what the answers to its keep-alives tell of the
// service's. Pure.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>

#include "proto/membership_messages.hpp"

namespace ddprun::rdzv {

/// Its time points are those of a clock that runs on while the machine is suspended.
using SessionClock = std::chrono::steady_clock;

class JobClock {
 public:
  /// The four times of a question and its answer.
  struct Sample {
    SessionClock::time_point sent;
    std::chrono::nanoseconds received{0};  ///< job time
    std::chrono::nanoseconds answered{0};  ///< job time
    SessionClock::time_point heard;
  };
  static constexpr std::size_t kSamples = 16;
  /// By so much two clocks may run apart.
  static constexpr std::chrono::nanoseconds kDriftPerSecond = std::chrono::microseconds(50);

  /// The samples are those of another clock from here on.
  void reset(proto::ClockId clock) {
    count_ = 0;
    clock_ = clock;
  }
  [[nodiscard]] proto::ClockId clock() const { return clock_; }
  /// The oldest one gives way. One that cannot be true is ignored.
  void add(const Sample& sample);
  /// By the sample that tells most exactly: half its round trip, which may have been spent on one
  /// way only, and the drift since then. None: there is no sample.
  [[nodiscard]] std::optional<proto::JobTime> job_time(SessionClock::time_point when) const;
  /// An instant from which others are counted, as the two clocks stand to each other now: the sum
  /// is exact for those near now, however long ago `origin` was.
  [[nodiscard]] std::optional<proto::JobTime> job_time_of_origin(
      SessionClock::time_point origin, SessionClock::time_point now) const;

 private:
  std::array<Sample, kSamples> samples_;
  std::size_t count_ = 0;  // that were added
  proto::ClockId clock_ = 0;
};

}  // namespace ddprun::rdzv
