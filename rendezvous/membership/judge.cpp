#include "rendezvous/membership/judge.hpp"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "rendezvous/membership/verdict.hpp"

namespace ddprun::rdzv {

using proto::AgentId;
using proto::FailedWorker;
using proto::JobTime;

namespace {

/// All lines are kept of so many workers that failed, and stacks of so many that ran on.
constexpr std::size_t kDetailedMax = 64;

/// The slowest workers of the nodes, counted by their phases.
class PhaseCounts {
 public:
  void add(const proto::WorkerProgress& progress) {
    ++all_[progress.phase];
    ++of_step_[progress.step][progress.phase];
  }
  [[nodiscard]] int in_phase(const proto::WorkerProgress& progress) const {
    return all_.at(progress.phase);
  }
  /// Whether all others of its step, two or more, are together in one other phase, as
  /// agent/progress/progress_watch.cpp has it.
  [[nodiscard]] bool is_alone(const proto::WorkerProgress& progress) const {
    const auto& phases = of_step_.at(progress.step);
    if (phases.size() != 2 || phases.at(progress.phase) != 1) return false;
    return std::any_of(phases.begin(), phases.end(),
                       [](const auto& one) { return one.second > 1; });
  }

 private:
  std::map<std::string_view, int> all_;
  std::map<std::uint64_t, std::map<std::string_view, int>> of_step_;
};

bool waits_for_another(const proto::Evidence& evidence) {
  return evidence.kind == proto::EvidenceKind::hang && !evidence.suspended && !evidence.all_silent;
}

}  // namespace

// ---- times ----

void RoundTimes::note_began(const AgentId& agent, const std::optional<JobTime>& round_began) {
  if (!round_began) return;
  if (const JobTime* before = began(agent)) move(JobTime(*before), *round_began);
  began_[agent] = *round_began;
  if (round_began->clock != 0) clock_ = round_began->clock;
}

/// A node that was lost before the service had the clock of `last_seen` was lost earlier.
void RoundTimes::note_lost(const JobTime& last_seen) {
  const bool is_earlier =
      lost_at_ && lost_at_->clock == last_seen.clock && last_seen.at < lost_at_->at;
  if (!lost_at_ || is_earlier) lost_at_ = last_seen;
}

void RoundTimes::move(const JobTime& from, const JobTime& to) {
  if (from.clock == to.clock || from.clock == 0 || to.clock == 0) return;
  const auto moved = [&](const JobTime& time) {
    return JobTime{time.at + (to.at - from.at),
                   time.uncertainty + (from.uncertainty + to.uncertainty), to.clock};
  };
  for (auto& [agent, began] : began_)
    if (began.clock == from.clock) began = moved(began);
  if (lost_at_ && lost_at_->clock == from.clock) lost_at_ = moved(*lost_at_);
}

/// Agents and services of an older version do not say by which clock they tell a time.
bool RoundTimes::is_comparable(const JobTime& time) const {
  return time.clock == clock_ || time.clock == 0 || clock_ == 0;
}

const JobTime* RoundTimes::began(const AgentId& agent) const {
  const auto found = began_.find(agent);
  return found == began_.end() ? nullptr : &found->second;
}

bool RoundTimes::awaits_any_of(const Roster& roster) const {
  return std::any_of(began_.begin(), began_.end(), [&](const auto& one) {
    return !is_comparable(one.second) && roster.find(one.first) != nullptr;
  });
}

bool RoundTimes::is_after_loss(const FailedWorker& worker) const {
  const JobTime* start = began(worker.agent);
  if (start == nullptr || !lost_at_) return false;
  if (!is_comparable(*start) || !is_comparable(*lost_at_)) return false;
  const auto uncertainty = start->uncertainty + lost_at_->uncertainty;
  return start->at + worker.failure.evidence.at - uncertainty > lost_at_->at;
}

void RoundTimes::put_in_job_time(std::map<int, FailedWorker>& failed,
                                 std::vector<proto::EarlyEnd>& ended) const {
  constexpr auto kNone = std::chrono::nanoseconds::max();
  auto first = kNone;
  for (const auto& [rank, worker] : failed) {
    const JobTime* start = began(worker.agent);
    if (start != nullptr && is_comparable(*start)) first = std::min(first, start->at);
  }
  std::chrono::nanoseconds length{0};
  for (auto& [rank, worker] : failed) {
    const JobTime* start = began(worker.agent);
    if (start != nullptr && is_comparable(*start)) {
      const auto later = start->at - first;
      worker.failure.evidence.at += later;
      worker.failure.evidence.uncertainty = start->uncertainty;
      worker.failure.ended_at += later;
    }
    length = std::max(length, worker.failure.evidence.at);
  }
  for (auto& [rank, worker] : failed) {
    const JobTime* start = began(worker.agent);
    if (start != nullptr && !is_comparable(*start)) worker.failure.evidence.uncertainty = length;
  }
  // An end has no uncertainty that would show that its clock, or that of all failures, is another.
  std::erase_if(ended, [&](const proto::EarlyEnd& one) {
    const JobTime* start = began(one.agent);
    return start != nullptr && (!is_comparable(*start) || first == kNone);
  });
  for (proto::EarlyEnd& one : ended)
    if (const JobTime* start = began(one.agent)) one.worker.at += start->at - first;
}

// ---- what is reported ----

void Judge::note_failed(const Source& source, const proto::WorkerFailed& failed) {
  times_.note_began(source.agent, failed.round_began);
  add(source, without_evidence(failed));
}

void Judge::note_stopped(const Source& source, const proto::Stopped& stopped) {
  const bool has_times = !stopped.failures.empty() || stopped.slowest || !stopped.ended.empty();
  if ((has_failures() && has_times) || times_.has(source.agent))
    times_.note_began(source.agent, stopped.round_began);
  if (has_failures()) {
    for (const proto::WorkerFailure& failure : stopped.failures) add(source, failure);
    if (stopped.slowest)
      slowest_.push_back({source.agent, source.name,
                          source.first_rank + stopped.slowest->as_hang.local_rank,
                          *stopped.slowest});
    if (stopped.program) programs_[source.agent] = *stopped.program;
  }
  for (const proto::RunningWorker& worker : stopped.still_ran) {
    still_ran_.push_back(
        {source.agent, source.first_rank + worker.local_rank, worker, source.name});
    if (!worker.stacks.empty() && ++stacks_kept_ > kDetailedMax)
      still_ran_.back().worker.stacks = {};
  }
  for (const proto::EndedWorker& worker : stopped.ended)
    ended_.push_back({source.agent, source.first_rank + worker.local_rank, worker, source.name});
  if (stopped.furthest_step)
    furthest_step_ = std::max(furthest_step_.value_or(0), *stopped.furthest_step);
}

void Judge::note_began_again(const AgentId& agent, const std::optional<JobTime>& round_began) {
  if (times_.has(agent)) times_.note_began(agent, round_began);
}

void Judge::note_lost(const AgentId& agent, proto::LostNode node, const JobTime& last_seen) {
  times_.note_lost(last_seen);
  if (lost_node_) {
    ++lost_node_->more;
  } else {
    lost_node_ = std::move(node);
  }
  lost_.insert(agent);
}

/// The last message about a worker counts: at first only its end was known.
void Judge::add(const Source& source, const proto::WorkerFailure& failure) {
  const int rank = source.first_rank + failure.local_rank;
  failed_[rank] = {source.agent, rank, failure, source.name};
  keep_details(rank);
}

/// The least guilty gives way: a job of 80,000 workers may lose them all.
void Judge::keep_details(int rank) {
  detailed_.insert(rank);
  if (detailed_.size() <= kDetailedMax) return;
  const auto least = std::max_element(detailed_.begin(), detailed_.end(), [this](int a, int b) {
    return is_guiltier(failed_.at(a), failed_.at(b));
  });
  failed_.at(*least) = with_last_line(std::move(failed_.at(*least)));
  detailed_.erase(least);
}

// ---- what follows from it ----

bool Judge::lost_node_explains() const {
  if (lost_.empty()) return false;
  return std::all_of(failed_.begin(), failed_.end(),
                     [this](const auto& entry) { return may_miss_lost_node(entry.second); });
}

bool Judge::may_miss_lost_node(const FailedWorker& worker) const {
  const proto::Evidence& evidence = worker.failure.evidence;
  if (!evidence.victim_phrase.empty()) return true;
  // Which of several waiting workers hangs is open; that its own node was lost is not.
  if (evidence.kind == proto::EvidenceKind::hang) return !lost_.contains(worker.agent);
  // A worker that just ended, after the lost node's last message, may have missed that node.
  return evidence.kind >= proto::EvidenceKind::own_exit && times_.is_after_loss(worker);
}

/// A node where a hang was found knows its own workers only: they may wait for one elsewhere that
/// has been silent, too, and is further behind.
void Judge::blame_furthest_behind() {
  std::vector<FailedWorker*> hangs;
  auto enough = std::chrono::nanoseconds::max();
  for (const SlowNode& node : slowest_) {
    const auto failed = failed_.find(node.rank);
    if (failed == failed_.end() || !waits_for_another(failed->second.failure.evidence)) continue;
    hangs.push_back(&failed->second);
    enough = std::min(enough, node.worker.silent_for / 2);
  }
  if (hangs.empty()) return;
  std::erase_if(slowest_, [&](const SlowNode& node) { return node.worker.silent_for < enough; });
  PhaseCounts phases;
  for (const SlowNode& node : slowest_) phases.add(*node.worker.as_hang.progress);
  const auto order = [&phases](const SlowNode& node) {
    const proto::WorkerProgress& progress = *node.worker.as_hang.progress;
    return std::tuple(progress.step, !phases.is_alone(progress), node.worker.place,
                      phases.in_phase(progress), -node.worker.silent_for, node.rank);
  };
  const auto last =
      std::min_element(slowest_.begin(), slowest_.end(),
                       [&](const SlowNode& a, const SlowNode& b) { return order(a) < order(b); });
  for (FailedWorker* hang : hangs) {
    if (hang->rank != last->rank)
      hang->failure.evidence.victim_phrase = fmt::format("it waited for rank {}", last->rank);
  }
  failed_.try_emplace(last->rank,
                      FailedWorker{last->agent, last->rank, last->worker.as_hang, last->name});
}

proto::Verdict Judge::take_verdict() {
  blame_furthest_behind();
  times_.put_in_job_time(failed_, ended_);
  std::vector<FailedWorker> failed;
  for (auto& [rank, worker] : failed_) failed.push_back(std::move(worker));
  proto::Verdict verdict = judge(std::move(failed), std::move(still_ran_), std::move(ended_));
  const auto program = programs_.find(verdict.culprit.agent);
  if (program != programs_.end()) verdict.program = std::move(program->second);
  return verdict;
}

}  // namespace ddprun::rdzv
