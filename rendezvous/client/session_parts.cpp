#include "rendezvous/client/session_parts.hpp"

namespace ddprun::rdzv {

using namespace std::chrono_literals;

namespace {

constexpr std::chrono::nanoseconds kFirstPause = 20ms;
/// A shorter silence is not worth a line.
constexpr std::chrono::nanoseconds kTellAfter = 2s;
/// Between two lines that give different reasons.
constexpr std::chrono::nanoseconds kTellEvery = 10s;

}  // namespace

std::optional<SessionClock::time_point> KeepAlives::answer(std::uint64_t number) {
  std::optional<SessionClock::time_point> sent;
  while (!asked_.empty() && asked_.front().first <= number) {
    if (asked_.front().first == number) sent = asked_.front().second;
    asked_.pop_front();
  }
  return sent;
}

std::chrono::nanoseconds AttemptPauses::next(std::chrono::nanoseconds longest) {
  std::uniform_int_distribution<std::int64_t> part(0, bound_.count());
  const std::chrono::nanoseconds pause(part(random_));
  bound_ = std::max(std::min(bound_ * 2, longest), std::min(kFirstPause, longest));
  return pause;
}

std::optional<SessionClock::time_point> SilenceReports::due(
    SessionClock::time_point heard_at) const {
  if (trouble_.empty() || trouble_ == told_) return std::nullopt;
  return std::max(std::max(heard_at, cut_at_) + kTellAfter, told_at_ + kTellEvery);
}

}  // namespace ddprun::rdzv
