#include "agent/progress/progress_watch.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/assert.hpp"

namespace ddprun::agent {
namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kPeriodMin = std::chrono::milliseconds(10);
constexpr nanoseconds kPeriodMax = std::chrono::seconds(1);

/// Whether all others of its step, two or more, are together in one other phase: a checkpoint that
/// rank 0 alone writes, with more updates than the others make.
bool is_alone(const SilentWorker& worker, const std::vector<SilentWorker>& silent) {
  const std::string* others = nullptr;
  int count = 0;
  for (const SilentWorker& other : silent) {
    if (&other == &worker || other.page.step != worker.page.step) continue;
    if (other.page.phase == worker.page.phase) return false;
    if (others != nullptr && *others != other.page.phase) return false;
    others = &other.page.phase;
    ++count;
  }
  return count >= 2;
}

/// Smaller: further behind. Workers that wait, wait in one phase. The worker's own time only
/// decides where nothing else does.
auto progress_of(const SilentWorker& worker, const std::vector<SilentWorker>& silent) {
  const auto in_this_phase = std::count_if(
      silent.begin(), silent.end(),
      [&worker](const SilentWorker& other) { return other.page.phase == worker.page.phase; });
  return std::tuple(worker.page.step, !is_alone(worker, silent), worker.page.place, in_this_phase,
                    -worker.silent_for, worker.page.time_ns);
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
  std::vector<std::pair<std::uint64_t, std::uint32_t>>
      moving;  // where those are that are not silent
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
      moving.emplace_back(worker.page->step, worker.page->place);
    }
  }
  if (silent.empty()) return std::nullopt;
  const auto culprit =
      std::min_element(silent.begin(), silent.end(), [&silent](const auto& a, const auto& b) {
        return progress_of(a, silent) < progress_of(b, silent);
      });
  const std::pair place(culprit->page.step, culprit->page.place);
  nanoseconds enough = timeout_;
  if (!moving.empty())
    enough += *std::min_element(moving.begin(), moving.end()) < place ? timeout_ : timeout_ / 4;
  if (longest < enough) return std::nullopt;
  Hang hang;
  hang.culprit = *culprit;
  silent.erase(culprit);
  hang.others = std::move(silent);
  return hang;
}

std::optional<SilentWorker> ProgressWatch::slowest() const {
  std::vector<SilentWorker> seen;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const Watched& worker = workers_[i];
    if (worker.page) seen.push_back({static_cast<int>(i), *worker.page, worker.silent_for});
  }
  const auto last = std::min_element(seen.begin(), seen.end(), [&](const auto& a, const auto& b) {
    return progress_of(a, seen) < progress_of(b, seen);
  });
  return last == seen.end() ? std::nullopt : std::optional(*last);
}

}  // namespace ddprun::agent
