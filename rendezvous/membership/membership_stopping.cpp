// How a round ends: its workers are stopped, the failure is judged, and the job goes on or is over.
#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "base/describe.hpp"
#include "proto/failure_text.hpp"
#include "proto/message_limits.hpp"
#include "rendezvous/membership/membership.hpp"
#include "rendezvous/membership/verdict.hpp"

namespace ddprun::rdzv {

using proto::AgentId;
using proto::Finished;

namespace {

/// Of so many workers that failed all lines are kept, and the stacks of so many that ran on.
constexpr std::size_t kDetailedMax = 64;

/// Of which agent a session is: one that was cut off comes back as "ID/2", "ID/3" and so on.
std::string process_of(const AgentId& session) { return session.substr(0, session.rfind('/')); }

}  // namespace

void Membership::stop_round(Context& context, const std::string& reason, bool may_save) {
  reason_ = reason;
  may_save_ = may_save;
  grow_at_.reset();
  state_ = JobState::stopping;
  for (auto member = members_.begin(); member != members_.end();)
    member = member->second.phase == Phase::gone ? erase(member) : std::next(member);
  for (const auto& [id, member] : members_)
    if (in_round(member)) context.actions.sends.push_back({id, stop_for(member)});
  check_stopped(context);
}

proto::Stop Membership::stop_for(const Member& member) const {
  proto::Stop stop;
  stop.round = next_round_ - 1;
  stop.reason = reason_;
  stop.may_save = may_save_;
  stop.final = final_ || ending_.has_value() || member.leaving.has_value();
  return stop;
}

void Membership::join_stopping(Context& context) {
  const auto known = members_.find(context.agent);
  if (known == members_.end() || !in_round(known->second)) wait(context);
}

void Membership::stopped_stopping(Context& context) {
  const auto& stopped = std::get<proto::Stopped>(*context.message);
  const auto found = member_in_round(context, stopped.round);
  const bool has_times =
      !failed_.empty() && (!stopped.failures.empty() || stopped.slowest || !stopped.ended.empty());
  const bool told_before = stopped.round + 1 == next_round_ && began_.contains(context.agent);
  if ((found != members_.end() && has_times) || told_before)
    note_began(context.agent, stopped.round_began);
  if (found == members_.end()) return check_stopped(context);
  Member& member = found->second;
  note_losses(*found, stopped.losses);
  if (!failed_.empty()) add_failures(context.agent, member, stopped.failures);
  if (stopped.slowest && !failed_.empty()) {
    slowest_.push_back({context.agent, name_of(member),
                        member.seat->first_rank + stopped.slowest->as_hang.local_rank,
                        *stopped.slowest});
  }
  for (const proto::RunningWorker& worker : stopped.still_ran) {
    still_ran_.push_back(
        {context.agent, member.seat->first_rank + worker.local_rank, worker, name_of(member)});
    if (!worker.stacks.empty() && ++stacks_kept_ > kDetailedMax)
      still_ran_.back().worker.stacks = {};
  }
  for (const proto::EndedWorker& worker : stopped.ended) {
    ended_.push_back(
        {context.agent, member.seat->first_rank + worker.local_rank, worker, name_of(member)});
  }
  if (stopped.program && !failed_.empty()) programs_[context.agent] = *stopped.program;
  if (stopped.furthest_step)
    furthest_step_ = std::max(furthest_step_.value_or(0), *stopped.furthest_step);
  if (member.leaving && !member.leaving->cancels) {
    const proto::Leave leave = *member.leaving;
    last_leave_ = leave;
    erase(found);
    check_stopped(context);
    say_goodbye(context, context.agent, leave);
  } else {
    set_phase(member, Phase::stopped);
    check_stopped(context);
  }
}

void Membership::leave_stopping(Context& context) {
  const auto found = members_.find(context.agent);
  if (found == members_.end()) return;
  const proto::Leave leave = leave_of(found->second, context);
  if (leave.cancels && !ending_) ending_ = cancelled_by(*found, leave);
  if (leave.cancels || in_round(found->second)) {
    found->second.leaving = leave;  // goes when it has stopped, or stays until all have
    return check_stopped(context);
  }
  erase(found);
  last_leave_ = leave;
  check_stopped(context);
  say_goodbye(context, context.agent, leave);
}

void Membership::lost_stopping(Context& context) {
  const auto found = members_.find(context.agent);
  if (found == members_.end()) return;
  if (in_round(found->second)) note_lost(*found, context);
  erase(found);
  check_stopped(context);
}

// ---- when all have stopped ----

void Membership::check_stopped(Context& context) {
  if (count(Phase::active) + count(Phase::done) > 0) return;
  const bool cancelled = ending_ && !final_;
  if (!cancelled && awaits_times()) return;
  const bool failed = !failed_.empty() && !lost_node_explains();
  if (failed && final_) {
    judge_round(context);
  } else if (ending_) {
    finish(context, *ending_);
  } else if (failed && (!members_.empty() || !last_leave_)) {
    judge_round(context);
  } else if (!members_.empty() || !last_leave_) {
    change_nodes(context);
  } else if (failed && last_leave_->signal == 0) {
    // A worker failed, and then this node could not go on: the worker's failure is the story.
    finish(context, failed_outcome(take_verdict(), last_leave_->error));
  } else {
    finish(context, outcome_of(*last_leave_));
  }
}

/// The last message about a worker counts: at first only its end was known.
void Membership::add_failures(const AgentId& agent, const Member& member,
                              const std::vector<proto::WorkerFailure>& failures) {
  for (const proto::WorkerFailure& failure : failures) {
    const int rank = member.seat->first_rank + failure.local_rank;
    failed_[rank] = {agent, rank, failure, name_of(member)};
    keep_details(rank);
  }
}

/// The least guilty gives way: a job of 80,000 workers may lose them all.
void Membership::keep_details(int rank) {
  detailed_.insert(rank);
  if (detailed_.size() <= kDetailedMax) return;
  const auto least = std::max_element(detailed_.begin(), detailed_.end(), [this](int a, int b) {
    return is_guiltier(failed_.at(a), failed_.at(b));
  });
  failed_.at(*least) = with_last_line(std::move(failed_.at(*least)));
  detailed_.erase(least);
}

/// Whether every worker that failed may have done so because a node was lost.
bool Membership::lost_node_explains() const {
  if (lost_.empty()) return false;
  return std::all_of(failed_.begin(), failed_.end(),
                     [this](const auto& entry) { return may_miss_lost_node(entry.second); });
}

bool Membership::may_miss_lost_node(const proto::FailedWorker& worker) const {
  const proto::Evidence& evidence = worker.failure.evidence;
  if (!evidence.victim_phrase.empty()) return true;
  // Which of those that wait for one another hangs is open; that its own node was lost is not.
  if (evidence.kind == proto::EvidenceKind::hang) return !lost_.contains(worker.agent);
  // One that just ended, and did so after the lost node's last word, has said nothing against it.
  const auto began = began_.find(worker.agent);
  if (began == began_.end() || evidence.kind < proto::EvidenceKind::own_exit) return false;
  if (!is_comparable(began->second) || !is_comparable(lost_at_)) return false;
  const auto uncertainty = began->second.uncertainty + lost_at_.uncertainty;
  return began->second.at + evidence.at - uncertainty > lost_at_.at;
}

proto::Verdict Membership::take_verdict() {
  blame_furthest_behind();
  put_in_job_time();
  std::vector<proto::FailedWorker> failed;
  for (auto& [rank, worker] : failed_) failed.push_back(std::move(worker));
  proto::Verdict verdict = judge(std::move(failed), std::move(still_ran_), std::move(ended_));
  const auto program = programs_.find(verdict.culprit.agent);
  if (program != programs_.end()) verdict.program = std::move(program->second);
  return verdict;
}

void Membership::judge_round(Context& context) {
  proto::Verdict verdict = take_verdict();
  // The budget as it was when the round failed: an agent may have been told then whether a round
  // can follow.
  const RestartDecision decision =
      policy_.decide(verdict.culprit.failure, furthest_step_, failed_at_);
  if (!decision.restart) {
    finish(context, failed_outcome(std::move(verdict), decision.reason));
    return;
  }
  reason_ = describe(verdict);
  count_failed_round(failed_node(verdict));
  last_culprit_ = without_lines(std::move(verdict.culprit));
  if (decision.delay.count() > 0) announce_restart(context, decision.delay);
  start_forming(context, std::chrono::duration_cast<Clock::duration>(decision.delay));
}

/// The round ended because nodes joined, left or were lost.
void Membership::change_nodes(Context& context) {
  count_failed_round({});
  if (!lost_.empty() || last_leave_) {
    if (!lost_.empty()) reason_ = describe(*lost_node_);
    change_ = reason_;
    if (settings_.max_node_changes && node_changes_ == *settings_.max_node_changes) {
      Finished finished;
      finished.outcome = Finished::Outcome::failed;
      finished.reason = reason_;
      finished.no_restart = node_changes_ == 0
                                ? "--max-node-changes=0 allows none"
                                : fmt::format("{} of {} changes of nodes used (--max-node-changes)",
                                              node_changes_, *settings_.max_node_changes);
      finished.lost_node = lost_node_;
      finish(context, std::move(finished));
      return;
    }
    ++node_changes_;
  }
  start_forming(context);
}

void Membership::announce_restart(Context& context, std::chrono::nanoseconds delay) const {
  for (const auto& [id, member] : members_) {
    proto::RestartPlanned planned;
    planned.reason = reason_;
    planned.delay = delay;
    planned.restart_count = policy_.restart_count();
    planned.max_restarts = settings_.restart.max_restarts;
    planned.culprit = last_culprit_;
    context.actions.sends.push_back({id, std::move(planned)});
  }
}

Finished Membership::failed_outcome(proto::Verdict verdict, std::string no_restart) const {
  Finished finished;
  finished.outcome = Finished::Outcome::failed;
  finished.reason = describe(verdict);
  finished.verdict = std::move(verdict);
  finished.no_restart = std::move(no_restart);
  return finished;
}

void Membership::note_lost(const Members::value_type& member, const Context& context) {
  const proto::JobTime last_word{
      context.now - context.lost->silent_for - job_began_, {}, context.lost->clock};
  if (lost_.empty()) {
    proto::LostNode lost;
    lost.node = member.second.node.name;
    lost.first_rank = member.second.seat->first_rank;
    lost.workers = member.second.node.local_world_size;
    lost.sign = context.lost->sign;
    lost.silent_for = context.lost->silent_for;
    lost.silent_for_longer = context.lost->silent_for_longer;
    lost_node_ = std::move(lost);
    lost_at_ = last_word;
  } else {
    ++lost_node_->more;
    // One that was lost before the service had this clock was so before.
    const bool same_clock = lost_at_.clock == last_word.clock;
    if (same_clock && last_word.at < lost_at_.at) lost_at_ = last_word;
  }
  lost_.insert(member.first);
}

/// What is known of a round that is over plays no part in the next one.
void Membership::forget_round() {
  failed_.clear();
  detailed_.clear();
  stacks_kept_ = 0;
  began_.clear();
  clock_ = 0;
  slowest_.clear();
  still_ran_.clear();
  ended_.clear();
  programs_.clear();
  furthest_step_.reset();
  final_ = false;
  lost_.clear();
  last_leave_.reset();
}

void Membership::finish(Context& context, Finished finished) {
  finished.restart_count = policy_.restart_count();
  finished.max_restarts = settings_.restart.max_restarts;
  finished.unsound = unsound_;
  outcome_ = std::move(finished);
  reason_ = outcome_->reason;
  state_ = JobState::finished;
  choose_reporter();
  for (const auto& [id, member] : members_) {
    if (member.phase != Phase::gone) context.actions.sends.push_back({id, outcome_for(id)});
  }
}

/// A node that wants to write a report, else any; of these the first one of the last round.
void Membership::choose_reporter() {
  if (settings_.max_nodes == 1) return;
  const Members::value_type* first = nullptr;
  const auto place = [](const Members::value_type& entry) {
    const Member& member = entry.second;
    return std::tuple(!member.seat, !member.node.wants_report,
                      member.seat ? member.seat->group_rank : 0);
  };
  for (const Members::value_type& entry : members_) {
    if (entry.second.phase == Phase::gone) continue;
    if (first == nullptr || place(entry) < place(*first)) first = &entry;
  }
  if (first == nullptr) return;
  reporter_ = first->first;
  reporter_name_ = first->second.node.name;
  const auto of_that_name =
      std::count_if(members_.begin(), members_.end(), [this](const Members::value_type& entry) {
        return entry.second.phase != Phase::gone && entry.second.node.name == reporter_name_;
      });
  if (of_that_name == 1) return;
  reporter_name_ += first->second.seat
                        ? fmt::format(" (group rank {})", first->second.seat->group_rank)
                        : fmt::format(" (agent {})", first->first);
}

/// Of the last round, by group rank.
std::vector<proto::NodeOfRound> Membership::nodes_of_round() const {
  std::vector<proto::NodeOfRound> nodes;
  for (const auto& [id, member] : members_)
    if (member.seat)
      nodes.push_back({member.node.name, member.seat->group_rank, member.seat->first_rank,
                       member.node.local_world_size});
  std::sort(nodes.begin(), nodes.end(),
            [](const auto& a, const auto& b) { return a.group_rank < b.group_rank; });
  return nodes;
}

/// An agent's last report covers all its rounds. With several nodes, each leftover gets its node's
/// name.
void Membership::note_losses(const Members::value_type& member, const proto::Losses& losses) {
  if (losses.dropped_bytes == 0 && losses.leftovers.empty()) return;
  has_leftovers_ = has_leftovers_ || !losses.leftovers.empty();
  proto::Losses& noted = losses_[process_of(member.first)] = losses;
  for (std::string& process : noted.leftovers)
    process = fmt::format("{}: {}", member.second.node.name, process);
}

proto::Losses Membership::losses_beside(const AgentId& agent) const {
  proto::Losses sum;
  for (const auto& [id, losses] : losses_) {
    if (id == process_of(agent)) continue;
    sum.dropped_bytes += losses.dropped_bytes;
    for (const std::string& process : losses.leftovers)
      if (sum.leftovers.size() < proto::kLeftoversMax) sum.leftovers.push_back(process);
  }
  return sum;
}

/// In full for the node that reports it, and for the culprit's.
Finished Membership::outcome_for(const AgentId& agent) const {
  Finished finished = *outcome_;
  if (reporter_.empty()) return finished;
  if (finished.verdict) finished.exit_code = exit_code_of(*finished.verdict);
  finished.has_leftovers = has_leftovers_;
  if (agent == reporter_) {
    finished.losses = losses_beside(agent);
    finished.nodes = nodes_of_round();
    return finished;
  }
  finished.report_at = reporter_name_;
  finished.unsound.clear();
  if (finished.verdict && finished.verdict->culprit.agent != agent)
    finished.verdict =
        proto::Verdict{without_lines(std::move(finished.verdict->culprit)), {}, {}, {}};
  return finished;
}

/// The others are told where.
Finished Membership::cancelled_by(const Members::value_type& member,
                                  const proto::Leave& leave) const {
  Finished finished = outcome_of(leave);
  if (settings_.max_nodes > 1 && leave.signal != 0) finished.reason += " on " + label(member);
  return finished;
}

/// To a node that goes, and is no member any more: the job's end, if it was the last, or its own.
void Membership::say_goodbye(Context& context, const AgentId& agent, const proto::Leave& leave) {
  context.actions.sends.push_back(
      {agent, state_ == JobState::finished ? outcome_for(agent) : outcome_of(leave)});
}

}  // namespace ddprun::rdzv
