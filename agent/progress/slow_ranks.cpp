#include "agent/progress/slow_ranks.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::agent {
namespace {

using std::chrono::nanoseconds;

nanoseconds median_of(std::vector<nanoseconds> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  if (times.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(times.begin(), middle)) / 2;
}

/// The time for a step without waits. None: it has made no step, or its page makes no sense.
std::optional<nanoseconds> step_time(const std::optional<WorkDone>& first,
                                     const std::optional<WorkDone>& last) {
  if (!first || !last || last->step <= first->step) return std::nullopt;
  for (const WorkDone* const one : {&*first, &*last})
    if (one->at < nanoseconds(0) || one->not_busy < nanoseconds(0)) return std::nullopt;
  const auto time = last->at - first->at;
  const auto not_busy = last->not_busy - first->not_busy;
  if (not_busy < nanoseconds(0) || time <= not_busy) return std::nullopt;
  return (time - not_busy) / static_cast<std::int64_t>(last->step - first->step);
}

}  // namespace

SlowRanks::Interval SlowRanks::interval_to(
    const std::vector<std::optional<WorkDone>>& workers) const {
  Interval interval(workers.size());
  std::vector<std::optional<nanoseconds>> times;
  for (std::size_t i = 0; i < workers.size(); ++i) times.push_back(step_time(last_[i], workers[i]));
  for (std::size_t i = 0; i < times.size(); ++i) {
    std::vector<nanoseconds> others;
    for (std::size_t other = 0; other < times.size(); ++other)
      if (other != i && times[other]) others.push_back(*times[other]);
    if (!times[i] || others.empty()) continue;
    const nanoseconds usual = std::max(nanoseconds(1), median_of(std::move(others)));
    const auto factor = static_cast<double>(times[i]->count()) / static_cast<double>(usual.count());
    interval[i] = SlowRank{static_cast<int>(i), factor, *times[i], usual};
  }
  return interval;
}

std::optional<SlowRank> SlowRanks::slow_rank(std::size_t local_rank) const {
  std::vector<SlowRank> all;
  for (const Interval& interval : intervals_)
    if (interval[local_rank]) all.push_back(*interval[local_rank]);
  if (all.size() < kIntervals) return std::nullopt;
  // The lower one of the two in the middle.
  const auto middle = all.begin() + (kIntervals - 1) / 2;
  std::nth_element(all.begin(), middle, all.end(),
                   [](const SlowRank& a, const SlowRank& b) { return a.factor < b.factor; });
  return middle->factor >= kFactorMin ? std::optional(*middle) : std::nullopt;
}

const std::vector<SlowRank>& SlowRanks::look(std::vector<std::optional<WorkDone>> workers) {
  if (last_.size() != workers.size()) forget();
  if (!last_.empty()) {
    for (std::size_t i = 0; i < workers.size(); ++i)
      if (workers[i] && last_[i] && workers[i]->step == last_[i]->step) return found_;
    intervals_.push_back(interval_to(workers));
    if (intervals_.size() > kIntervals) intervals_.pop_front();
  }
  last_ = std::move(workers);
  std::vector<bool> are_slow(last_.size());
  found_.clear();
  for (std::size_t i = 0; i < last_.size(); ++i) {
    const auto slow = slow_rank(i);
    are_slow[i] = slow.has_value();
    if (slow && i < were_slow_.size() && were_slow_[i]) found_.push_back(*slow);
  }
  were_slow_ = std::move(are_slow);
  return found_;
}

}  // namespace ddprun::agent
