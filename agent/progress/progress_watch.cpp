#include "agent/progress/progress_watch.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/assert.hpp"

namespace ddprun::agent {

std::optional<KernelWait> KernelWatch::look(const std::vector<std::optional<std::uint64_t>>& waits,
                                            std::chrono::nanoseconds elapsed) {
  DDPRUN_ASSERT(waits.size() == workers_.size(), "one wait for each worker");
  std::optional<KernelWait> longest;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Watched& worker = workers_[i];
    const bool goes_on = waits[i] && waits[i] == worker.wait;
    worker = {waits[i], goes_on ? worker.lasted + elapsed : std::chrono::nanoseconds(0)};
    if (!goes_on || worker.lasted < timeout_) continue;
    if (!longest || worker.lasted > longest->lasted)
      longest = KernelWait{static_cast<int>(i), worker.lasted};
  }
  return longest;
}

std::vector<QuietWorker> OutputWatch::look(const std::vector<std::optional<std::uint64_t>>& printed,
                                           std::chrono::nanoseconds elapsed,
                                           const std::vector<bool>& held) {
  DDPRUN_ASSERT(printed.size() == workers_.size(), "one count for each worker");
  std::vector<QuietWorker> quiet;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Watched& worker = workers_[i];
    worker.seen = printed[i].has_value();
    if (!printed[i]) continue;
    if (*printed[i] != worker.printed) {
      worker = {*printed[i], std::chrono::nanoseconds(0), false, true};
      continue;
    }
    if (!held.empty() && held[i]) continue;
    worker.quiet_for += elapsed;
    if (worker.reported || worker.quiet_for < timeout_) continue;
    worker.reported = true;
    quiet.push_back({static_cast<int>(i), worker.quiet_for});
  }
  return quiet;
}

std::optional<QuietWorker> OutputWatch::all_quiet() const {
  const auto more_suspect = [](const Watched& a, const Watched& b) {
    const bool printed = a.printed > 0;
    return printed != (b.printed > 0) ? printed : a.quiet_for > b.quiet_for;
  };
  const Watched* most = nullptr;
  for (const Watched& worker : workers_) {
    if (!worker.seen) continue;
    if (worker.quiet_for < timeout_) return std::nullopt;
    if (most == nullptr || more_suspect(worker, *most)) most = &worker;
  }
  if (most == nullptr) return std::nullopt;
  return QuietWorker{static_cast<int>(most - workers_.data()), most->quiet_for};
}

void OutputWatch::forget() {
  for (Watched& worker : workers_) worker.quiet_for = std::chrono::nanoseconds(0);
}

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
