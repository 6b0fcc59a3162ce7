// When the warden kills what the agent should have killed, because the agent's lease is over. Pure.
#pragma once

#include <chrono>
#include <optional>

namespace ddprun::warden {

class FenceDeadline {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// For the agent to kill the workers itself.
  static constexpr std::chrono::seconds kMargin{1};
  /// A machine that was asleep at the end of the lease wakes warden and agent in the same moment:
  /// then the agent has this long.
  static constexpr std::chrono::milliseconds kWakeMargin{200};

  struct Now {
    TimePoint boot;    ///< of base/boot_clock.hpp; runs on while the machine sleeps
    TimePoint steady;  ///< of std::chrono::steady_clock
  };

  /// By the boot clock, when to ask is_due next; none: there is no lease.
  [[nodiscard]] static std::optional<TimePoint> at(std::optional<TimePoint> lease_end);

  bool is_due(std::optional<TimePoint> lease_end, Now now);

  /// By the steady clock, when to ask in place of at(); none: the machine did not sleep.
  [[nodiscard]] std::optional<TimePoint> wake_until() const { return wake_until_; }

 private:
  std::optional<TimePoint> wake_until_;
};

}  // namespace ddprun::warden
