#include "rendezvous/client/job_clock.hpp"

#include <algorithm>

namespace ddprun::rdzv {

using std::chrono::nanoseconds;

namespace {

nanoseconds round_trip(const JobClock::Sample& sample) {
  return (sample.heard - sample.sent) - (sample.answered - sample.received);
}

/// In job time, as if both ways had taken as long.
nanoseconds translated(const JobClock::Sample& sample, SessionClock::time_point when) {
  const nanoseconds own = (sample.heard - sample.sent) / 2;
  const nanoseconds theirs = (sample.answered - sample.received) / 2;
  return sample.received + theirs + (when - (sample.sent + own));
}

nanoseconds distance(const JobClock::Sample& sample, SessionClock::time_point when) {
  if (when > sample.heard) return when - sample.heard;
  return when < sample.sent ? sample.sent - when : nanoseconds(0);
}

nanoseconds uncertainty(const JobClock::Sample& sample, SessionClock::time_point when) {
  const std::chrono::duration<double> seconds = distance(sample, when);
  const auto drift = static_cast<double>(JobClock::kDriftPerSecond.count()) * seconds.count();
  return round_trip(sample) / 2 + nanoseconds(static_cast<std::int64_t>(drift));
}

}  // namespace

void JobClock::add(const Sample& sample) {
  const bool is_possible = sample.answered >= sample.received && round_trip(sample).count() >= 0;
  if (is_possible) samples_[count_++ % kSamples] = sample;
}

std::optional<proto::JobTime> JobClock::job_time(SessionClock::time_point when) const {
  if (count_ == 0) return std::nullopt;
  const Sample* best = &samples_[0];
  for (std::size_t i = 1; i < std::min(count_, kSamples); ++i) {
    if (uncertainty(samples_[i], when) < uncertainty(*best, when)) best = &samples_[i];
  }
  return proto::JobTime{translated(*best, when), uncertainty(*best, when), clock_};
}

std::optional<proto::JobTime> JobClock::job_time_of_origin(SessionClock::time_point origin,
                                                           SessionClock::time_point now) const {
  auto time = job_time(now);
  if (time) time->at -= now - origin;
  return time;
}

}  // namespace ddprun::rdzv
