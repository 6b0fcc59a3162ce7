#include "warden/agent_deadline.hpp"

#include <algorithm>

namespace ddprun::warden {

void AgentDeadline::stop_requested(Clock::time_point now) {
  const auto end = now + limit_;
  if (!end_ || end < *end_) end_ = end;
}

void AgentDeadline::ends_within(Clock::duration limit, Clock::time_point now) {
  end_ = now + limit;
}

void AgentDeadline::stopped(Clock::time_point now) {
  if (end_if_stopped_) return;
  end_if_stopped_ = now + limit_;
  say_ = now + kSayStoppedAfter;
}

void AgentDeadline::continued() {
  end_if_stopped_.reset();
  say_.reset();
}

std::optional<AgentDeadline::Clock::time_point> AgentDeadline::next() const {
  std::optional<Clock::time_point> first;
  for (const auto& time : {end_, end_if_stopped_, say_}) {
    if (time && (!first || *time < *first)) first = time;
  }
  return first;
}

AgentDeadline::Due AgentDeadline::due(Clock::time_point now) {
  if (end_ && now >= *end_) return Due::end_job;
  const auto planned = next();
  if (end_if_stopped_ && planned && now >= *planned + kOversleptAfter) {
    const bool said = !say_;
    continued();
    stopped(now);
    if (said) say_.reset();
    return Due::nothing;
  }
  if (end_if_stopped_ && now >= *end_if_stopped_) return Due::end_job;
  if (say_ && now >= *say_) {
    say_.reset();
    return Due::say_stopped;
  }
  return Due::nothing;
}

AgentDeadline::Clock::duration AgentDeadline::left(Clock::time_point now) const {
  return end_if_stopped_ ? std::max<Clock::duration>(*end_if_stopped_ - now, {})
                         : Clock::duration::max();
}

namespace {

/// Without a sleep the warden is not later than this.
constexpr std::chrono::seconds kOversleptAfter{1};

}  // namespace

std::optional<FenceDeadline::TimePoint> FenceDeadline::at(std::optional<TimePoint> lease_end) {
  return lease_end ? std::optional(*lease_end + kMargin) : std::nullopt;
}

bool FenceDeadline::is_due(std::optional<TimePoint> lease_end, Now now) {
  const auto due = at(lease_end);
  if (!due || now.boot < *due) {
    wake_until_.reset();
    return false;
  }
  if (!wake_until_) {
    if (now.boot - *due <= kOversleptAfter) return true;
    wake_until_ = now.steady + kWakeMargin;
  }
  return now.steady >= *wake_until_;
}

}  // namespace ddprun::warden
