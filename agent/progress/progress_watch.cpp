#include "agent/progress/progress_watch.hpp"

#include <algorithm>
#include <tuple>

#include "proto/assert.hpp"

namespace ddprun::agent {
namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kPeriodMin = std::chrono::milliseconds(10);
constexpr nanoseconds kPeriodMax = std::chrono::seconds(1);

/// Smaller: further behind. The worker's own time only decides where nothing else does.
auto progress_of(const SilentWorker& worker) {
  return std::tuple(worker.page.step, worker.page.place, -worker.silent_for, worker.page.time_ns);
}

}  // namespace

nanoseconds look_period(nanoseconds timeout) {
  return std::clamp(timeout / 4, kPeriodMin, kPeriodMax);
}

nanoseconds LookClock::counted(Clock::time_point now) {
  const nanoseconds since = now - last_;
  last_ = now;
  const bool counts = !paused_ && !touched_;
  touched_ = paused_;
  return counts ? std::min(since, 2 * period_) : nanoseconds(0);
}

std::optional<Hang> ProgressWatch::look(const std::vector<Sighting>& sightings,
                                        nanoseconds elapsed) {
  DDPRUN_ASSERT(sightings.size() == workers_.size(), "one sighting for each worker");
  std::vector<SilentWorker> silent;
  nanoseconds longest{0};
  bool all = true;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Watched& worker = workers_[i];
    const Sighting& seen = sightings[i];
    if (!seen.running || !seen.page || !seen.page->watched) {
      worker = {};
      continue;
    }
    if (worker.page == seen.page) {
      worker.silent_for += elapsed;
    } else {
      worker = {seen.page, nanoseconds(0)};
    }
    longest = std::max(longest, worker.silent_for);
    if (worker.silent_for >= timeout_) {
      silent.push_back({static_cast<int>(i), *worker.page, worker.silent_for});
    } else {
      all = false;
    }
  }
  if (silent.empty() || (!all && longest < timeout_ + timeout_ / 4)) return std::nullopt;
  const auto culprit = std::min_element(
      silent.begin(), silent.end(),
      [](const auto& a, const auto& b) { return progress_of(a) < progress_of(b); });
  Hang hang;
  hang.culprit = *culprit;
  silent.erase(culprit);
  hang.others = std::move(silent);
  return hang;
}

}  // namespace ddprun::agent
