// How a round ends: its workers are stopped, the failure is judged, and the job goes on or is over.
// Then all nodes get the outcome.
#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "proto/failure_text.hpp"
#include "rendezvous/membership/states.hpp"
#include "rendezvous/membership/verdict.hpp"

namespace ddprun::rdzv {

namespace {

Judge::Source source_of(const Roster::Entry& entry, const JobFacts& job) {
  const Member& member = entry.second;
  return {entry.first, job.settings.max_nodes > 1 ? member.node.name : "", member.seat->first_rank};
}

proto::Finished failed_outcome(proto::Verdict verdict, std::string no_restart) {
  proto::Finished finished;
  finished.outcome = proto::Finished::Outcome::failed;
  finished.reason = describe(verdict);
  finished.verdict = std::move(verdict);
  finished.no_restart = std::move(no_restart);
  return finished;
}

void announce_restart(const JobFacts& job, std::chrono::nanoseconds delay,
                      const proto::FailedWorker& culprit, Context& context) {
  proto::RestartPlanned planned;
  planned.reason = job.reason;
  planned.delay = delay;
  planned.restart_count = job.policy.restart_count();
  planned.max_restarts = job.settings.restart.max_restarts;
  planned.culprit = culprit;
  for (const auto& [id, member] : job.roster.members()) context.actions.send(id, planned);
}

/// The nodes of the last round, by group rank.
std::vector<proto::NodeOfRound> nodes_of_round(const Roster& roster) {
  std::vector<proto::NodeOfRound> nodes;
  for (const auto& [id, member] : roster.members())
    if (member.seat)
      nodes.push_back({member.node.name, member.seat->group_rank, member.seat->first_rank,
                       member.node.local_world_size});
  std::sort(nodes.begin(), nodes.end(),
            [](const auto& a, const auto& b) { return a.group_rank < b.group_rank; });
  return nodes;
}

}  // namespace

void Stopping::enter(JobFacts& job, Context& context) {
  job.roster.erase_gone();
  for (const auto& [id, member] : job.roster.members())
    if (member.in_round()) context.actions.send(id, stop_for(member, job));
  check_stopped(job, context);
}

proto::Stop Stopping::stop_for(const Member& member, const JobFacts& job) const {
  proto::Stop stop;
  stop.round = job.next_round - 1;
  stop.reason = job.reason;
  stop.may_save = may_save;
  stop.final = final || ending.has_value() || member.leaving.has_value();
  stop.keep = !stop.final && !replaces_all;
  return stop;
}

void Stopping::on_join(JobFacts& job, const proto::Join& join, Context& context) {
  const Roster::Entry* known = job.roster.find(context.agent);
  if (known == nullptr || !known->second.in_round())
    job.admit(context.agent, join, context.actions);
}

void Stopping::on_stopped(JobFacts& job, const proto::Stopped& stopped, Context& context) {
  Roster::Entry* const entry = job.participant(context.agent, stopped.round);
  if (entry == nullptr) {
    const bool is_newest = stopped.round + 1 == job.next_round;
    if (is_newest) judge.note_began_again(context.agent, stopped.round_began);
    return check_stopped(job, context);
  }
  Member& member = entry->second;
  job.note_losses(*entry, stopped.losses);
  judge.note_stopped(source_of(*entry, job), stopped);
  if (member.leaving && !member.leaving->cancels)
    return release(job, *entry, proto::Leave(*member.leaving), context);
  job.roster.set_phase(member, Phase::stopped);
  check_stopped(job, context);
}

void Stopping::on_leave(JobFacts& job, const proto::Leave& left, Context& context) {
  Roster::Entry* const entry = job.roster.find(context.agent);
  if (entry == nullptr) return;
  const proto::Leave leave = job.leave_of(entry->second, left);
  if (leave.cancels && !ending) ending = job.cancelled_by(*entry, leave);
  if (!leave.cancels && !entry->second.in_round()) return release(job, *entry, leave, context);
  entry->second.leaving = leave;  // goes when it has stopped, or stays until all have
  check_stopped(job, context);
}

void Stopping::release(JobFacts& job, const Roster::Entry& entry, const proto::Leave& leave,
                       Context& context) {
  last_leave = leave;
  context.goodbye = leave;
  job.roster.erase(entry);
  check_stopped(job, context);
}

void Stopping::on_checked(JobFacts& job, const proto::Checked& checked, Context& context) {
  const auto result = job.checks.take_answer(job.roster, context.agent, checked, context.actions);
  if (result.leaves) on_leave(job, *result.leaves, context);
}

void Stopping::on_lost(JobFacts& job, const AgentLost& lost, Context& context) {
  Roster& roster = job.roster;
  const Roster::Entry* entry = roster.find(context.agent);
  if (entry == nullptr) return;
  if (entry->second.in_round()) note_lost(job, *entry, lost, context.now);
  roster.erase(*entry);
  check_stopped(job, context);
}

void Stopping::note_failed(const JobFacts& job, const Roster::Entry& entry,
                           const proto::WorkerFailed& failed, Clock::time_point now) {
  judge.note_failed(source_of(entry, job), failed);
  failed_at = now;
  // Which worker is the culprit, and whether there is another round, is decided when all have
  // stopped and reported what they saw. That there can't be one is known now, unless the reason may
  // prove to be a node that is lost: that costs no restart.
  final = job.settings.max_nodes == 1 && !job.policy.budget_left(now);
}

void Stopping::note_lost(const JobFacts& job, const Roster::Entry& entry, const AgentLost& lost,
                         Clock::time_point now) {
  proto::LostNode node;
  node.node = entry.second.node.name;
  node.first_rank = entry.second.seat->first_rank;
  node.workers = entry.second.node.local_world_size;
  node.sign = lost.sign;
  node.silent_for = lost.silent_for;
  node.silent_for_longer = lost.silent_for_longer;
  judge.note_lost(entry.first, std::move(node),
                  {now - lost.silent_for - job.began, {}, lost.clock});
}

// ---- when all have stopped ----

void Stopping::check_stopped(JobFacts& job, Context& context) {
  const Roster& roster = job.roster;
  if (roster.count(Phase::active) + roster.count(Phase::done) > 0) return;
  const bool cancelled = ending && !final;
  if (!cancelled && judge.awaits_times(roster)) return;
  const bool failed = judge.has_failures() && !judge.lost_node_explains();
  const bool goes_on = roster.size() > 0 || !last_leave;
  if (failed && final) {
    judge_round(job, context);
  } else if (ending) {
    context.next = Finished{*ending};
  } else if (goes_on) {
    failed ? judge_round(job, context) : change_nodes(job, context);
  } else if (failed && last_leave->signal == 0) {
    // A worker failed, and then this node could not go on: the worker's failure is the story.
    context.next = Finished{failed_outcome(judge.take_verdict(), last_leave->error)};
  } else {
    context.next = Finished{outcome_of(*last_leave)};
  }
}

void Stopping::judge_round(JobFacts& job, Context& context) {
  proto::Verdict verdict = judge.take_verdict();
  // The budget as it was when the round failed: an agent may have been told then whether a round
  // can follow.
  const RestartDecision decision =
      job.policy.decide(verdict.culprit.failure, judge.furthest_step(), failed_at);
  if (!decision.restart) {
    context.next = Finished{failed_outcome(std::move(verdict), decision.reason)};
    return;
  }
  job.reason = describe(verdict);
  job.roster.count_failed_round(failed_node(verdict));
  proto::FailedWorker culprit = without_lines(std::move(verdict.culprit));
  if (decision.delay.count() > 0) announce_restart(job, decision.delay, culprit, context);
  const auto delay = std::chrono::duration_cast<Clock::duration>(decision.delay);
  Forming forming{.since = context.now + delay, .reforming = true};
  if (delay > Clock::duration::zero()) forming.not_before = forming.since;
  forming.culprit = std::move(culprit);
  forming.lost_node = judge.lost_node();
  context.next = std::move(forming);
}

/// The round ended because nodes joined, left or were lost.
void Stopping::change_nodes(JobFacts& job, Context& context) {
  const auto& lost_node = judge.lost_node();
  job.roster.count_failed_round({});
  Forming forming{.since = context.now, .reforming = true, .lost_node = lost_node};
  if (lost_node || last_leave) {
    if (lost_node) job.reason = describe(*lost_node);
    forming.change = job.reason;
    const auto& allowed = job.settings.max_node_changes;
    if (allowed && job.node_changes == *allowed) {
      proto::Finished finished;
      finished.outcome = proto::Finished::Outcome::failed;
      finished.reason = job.reason;
      finished.no_restart = job.node_changes == 0
                                ? "--max-node-changes=0 allows none"
                                : fmt::format("{} of {} changes of nodes used (--max-node-changes)",
                                              job.node_changes, *allowed);
      finished.lost_node = lost_node;
      context.next = Finished{std::move(finished)};
      return;
    }
    ++job.node_changes;
  }
  context.next = std::move(forming);
}

// ---- the end of the job ----

void Finished::enter(JobFacts& job, Context& context) {
  outcome.restart_count = job.policy.restart_count();
  outcome.max_restarts = job.settings.restart.max_restarts;
  outcome.unsound = job.checks.unsound();
  job.reason = outcome.reason;
  choose_reporter(job);
  for (const auto& [id, member] : job.roster.members())
    if (member.phase != Phase::gone) context.actions.send(id, outcome_for(id, job));
}

void Finished::on_join(JobFacts& job, const proto::Join&, Context& context) {
  context.actions.send(context.agent, outcome_for(context.agent, job));
}

/// A node that wants to write a report, else any; of these the first one of the last round.
void Finished::choose_reporter(const JobFacts& job) {
  if (job.settings.max_nodes == 1) return;
  const Roster::Entry* first = nullptr;
  const auto place = [](const Roster::Entry& entry) {
    const Member& member = entry.second;
    return std::tuple(!member.seat, !member.node.wants_report,
                      member.seat ? member.seat->group_rank : 0);
  };
  for (const Roster::Entry& entry : job.roster.members()) {
    if (entry.second.phase == Phase::gone) continue;
    if (first == nullptr || place(entry) < place(*first)) first = &entry;
  }
  if (first == nullptr) return;
  reporter = first->first;
  reporter_name = first->second.node.name;
  if (job.roster.has_own_name(*first)) return;
  reporter_name += first->second.seat
                       ? fmt::format(" (group rank {})", first->second.seat->group_rank)
                       : fmt::format(" (agent {})", first->first);
}

proto::Finished Finished::outcome_for(const proto::AgentId& agent, const JobFacts& job) const {
  proto::Finished finished = outcome;
  if (reporter.empty()) return finished;
  if (finished.verdict) finished.exit_code = exit_code_of(*finished.verdict);
  finished.has_leftovers = job.has_leftovers;
  if (agent == reporter) {
    finished.losses = job.losses_beside(agent);
    finished.nodes = nodes_of_round(job.roster);
    return finished;
  }
  finished.report_at = reporter_name;
  finished.unsound.clear();
  if (finished.verdict && finished.verdict->culprit.agent != agent)
    finished.verdict =
        proto::Verdict{without_lines(std::move(finished.verdict->culprit)), {}, {}, {}};
  return finished;
}

}  // namespace ddprun::rdzv
