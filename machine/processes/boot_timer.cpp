#include "machine/processes/boot_timer.hpp"

#include <sys/timerfd.h>

#include <algorithm>
#include <cstdint>

#include "base/boot_clock.hpp"

namespace ddprun::machine {

Result<UniqueFd> make_boot_timer() {
  UniqueFd timer(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer) return last_system_error();
  return timer;
}

void set_boot_timer(int timer, std::optional<std::chrono::steady_clock::time_point> at) {
  itimerspec when{};
  if (at) {
    // 0 would switch it off.
    const auto count = std::max<std::int64_t>(at->time_since_epoch().count(), 1);
    when.it_value = {count / 1'000'000'000, count % 1'000'000'000};
  }
  timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, nullptr);
}

void BootTimer::set(std::optional<TimePoint> at) {
  if (at == at_) return;
  at_ = at;
  if (!timer_) {
    if (auto made = make_boot_timer()) timer_ = std::move(*made);
  }
  if (timer_) set_boot_timer(timer_.get(), at);
}

std::optional<BootTimer::TimePoint> BootTimer::missed_at() const {
  if (timer_ || !at_) return std::nullopt;
  return std::chrono::steady_clock::now() + (*at_ - boot_clock_now());
}

}  // namespace ddprun::machine
