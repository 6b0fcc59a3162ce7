// A timer of the kernel that runs on while the machine is suspended, and is due at once when it
// wakes, unlike the time-outs of poll and of std::chrono::steady_clock.
#pragma once

#include <chrono>
#include <optional>

#include "base/result.hpp"
#include "base/unique_handle.hpp"

namespace ddprun::machine {

/// A timerfd on CLOCK_BOOTTIME that does not block; read() takes the times it was due.
Result<UniqueFd> make_boot_timer();
/// Due at this point of boot_clock_now(), once; none: never. Forgets that it was due before.
void set_boot_timer(int timer, std::optional<std::chrono::steady_clock::time_point> at);

/// One for poll(), made when it is needed first.
class BootTimer {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  void set(std::optional<TimePoint> at);
  /// Readable once the timer is due; -1, which poll() passes over: never set, or no descriptor was
  /// left.
  [[nodiscard]] int descriptor() const { return timer_.get(); }
  /// Where no descriptor was left: when it would be due, by std::chrono::steady_clock.
  [[nodiscard]] std::optional<TimePoint> missed_at() const;

 private:
  UniqueFd timer_;
  std::optional<TimePoint> at_;
};

}  // namespace ddprun::machine
