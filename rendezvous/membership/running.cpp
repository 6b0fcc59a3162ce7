// What happens while a round is out.
#include <utility>

#include <fmt/format.h>

#include "base/describe.hpp"
#include "proto/failure_text.hpp"
#include "rendezvous/membership/states.hpp"
#include "rendezvous/membership/verdict.hpp"

namespace ddprun::rdzv {

namespace {

void stop_round(JobFacts& job, Stopping stopping, std::string reason, Context& context) {
  job.reason = std::move(reason);
  context.next = std::move(stopping);
}

/// Why a node that insists on its rank has to wait. Empty: no node of the round has that rank.
std::string why_rank_is_taken(const Node& node, const Roster& roster) {
  if (!node.insists_on_rank || !node.requested_group_rank) return "";
  for (const Roster::Entry& entry : roster.members()) {
    const Member& member = entry.second;
    if (member.in_round() && member.seat->group_rank == *node.requested_group_rank)
      return fmt::format("--node-rank={} is taken by {}", *node.requested_group_rank,
                         roster.label(entry));
  }
  return "";
}

}  // namespace

void Running::on_join(JobFacts& job, const proto::Join& join, Context& context) {
  const Roster::Entry* known = job.roster.find(context.agent);
  if (known != nullptr && known->second.in_round()) return;  // a repeated join of a participant
  if (job.admit(context.agent, join, context.actions)) grow_or_spare(job, context);
}

/// A node that may take part in the next round.
void Running::grow_or_spare(JobFacts& job, Context& context) {
  grow_when_due(job, context);
  Member& member = job.roster.find(context.agent)->second;
  if (context.next || grow_at || member.phase == Phase::checking) return;
  member.is_checked = !member.node.checks_first;  // it may be a spare for long
  job.notify_spare(context.agent, job.roster.size() - job.roster.count(Phase::waiting),
                   why_rank_is_taken(member.node, job.roster), context.actions);
}

/// Nodes that join within the delay of one another cost one restart, not one each.
void Running::grow_when_due(JobFacts& job, Context& context) {
  const Roster& roster = job.roster;
  const proto::JobSettings& settings = job.settings;
  const int active = roster.count(Phase::active);
  const int taking_part = active + roster.count(Phase::done) + roster.count(Phase::gone);
  const int room = settings.max_nodes - taking_part;
  const int waiting = roster.count(Phase::waiting);
  // A round in which a worker is done already is not given up for a newcomer.
  if (!settings.grow_delay || room <= 0 || taking_part > active || waiting == 0) {
    grow_at.reset();
    return;
  }
  if (!grow_at) grow_at = context.now + *settings.grow_delay;
  if (waiting < room && context.now < *grow_at) return;
  std::string names;
  for (const auto& [id, member] : roster.members())
    if (member.phase == Phase::waiting) names += (names.empty() ? "" : ", ") + member.node.name;
  stop_round(job, {.may_save = true}, names + " joined", context);
}

void Running::on_deadline(JobFacts& job, const DeadlinePassed&, Context& context) {
  grow_when_due(job, context);
}

void Running::on_worker_failed(JobFacts& job, const proto::WorkerFailed& failed, Context& context) {
  const Roster::Entry* entry = job.participant(context.agent, failed.round);
  if (entry == nullptr) return;
  Stopping stopping;
  stopping.note_failed(job, *entry, failed, context.now);
  std::string reason = describe(stopping.judge.failed().begin()->second);
  stop_round(job, std::move(stopping), std::move(reason), context);
}

void Running::on_workers_done(JobFacts& job, const proto::WorkersDone& done, Context& context) {
  Roster::Entry* const entry = job.participant(context.agent, done.round);
  if (entry == nullptr) return;
  job.note_losses(*entry, done.losses);
  job.roster.set_phase(entry->second, Phase::done);
  grow_at.reset();
  if (job.roster.count(Phase::active) > 0) return;
  proto::Finished finished;
  finished.reason = "all workers ended with exit code 0";
  context.next = Finished{std::move(finished)};
}

void Running::on_leave(JobFacts& job, const proto::Leave& left, Context& context) {
  Roster::Entry* const entry = job.roster.find(context.agent);
  if (entry == nullptr) return;
  Member& member = entry->second;
  const proto::Leave leave = job.leave_of(member, left);
  const std::string name = job.roster.label(*entry);
  if (leave.cancels) {
    member.leaving = leave;
    stop_round(job, {.may_save = leave.signal != 0, .ending = job.cancelled_by(*entry, leave)},
               leave.signal != 0
                   ? fmt::format("the job was stopped by {} on {}", signal_name(leave.signal), name)
                   : leave.error,
               context);
  } else if (member.phase == Phase::active) {
    member.leaving = leave;
    stop_round(job, {.may_save = leave.signal != 0},
               leave.signal != 0
                   ? fmt::format("{} was stopped by {}", name, signal_name(leave.signal))
                   : fmt::format("{} left: {}", name, leave.error),
               context);
  } else {
    context.goodbye = leave;
    if (member.phase == Phase::done) return job.roster.set_phase(member, Phase::gone);
    job.roster.erase(*entry);
    grow_when_due(job, context);
  }
}

void Running::on_checked(JobFacts& job, const proto::Checked& checked, Context& context) {
  const auto result = job.checks.take_answer(job.roster, context.agent, checked, context.actions);
  if (result.leaves) return on_leave(job, *result.leaves, context);
  if (result.passed) grow_or_spare(job, context);
}

void Running::on_ask_restart(JobFacts& job, const proto::AskRestart&, Context& context) {
  const Roster::Entry* const entry = job.roster.find(context.agent);
  if (entry == nullptr) return;
  if (job.roster.count(Phase::done) + job.roster.count(Phase::gone) > 0) {
    // What they have done would be done again.
    context.actions.send(
        context.agent,
        proto::Remark{"the workers are not restarted: those of another node have ended already"});
    return;
  }
  stop_round(job, {.may_save = true, .replaces_all = true},
             job.settings.max_nodes == 1
                 ? std::string("a restart was asked for")
                 : fmt::format("a restart was asked for on {}", job.roster.label(*entry)),
             context);
}

void Running::on_lost(JobFacts& job, const AgentLost& lost, Context& context) {
  Roster& roster = job.roster;
  Roster::Entry* const entry = roster.find(context.agent);
  if (entry == nullptr) return;
  if (entry->second.phase == Phase::done)
    return roster.set_phase(entry->second, Phase::gone);  // its work is done
  const bool was_active = entry->second.phase == Phase::active;
  Stopping stopping;
  if (was_active) stopping.note_lost(job, *entry, lost, context.now);
  roster.erase(*entry);
  if (!was_active) return grow_when_due(job, context);
  std::string reason = describe(*stopping.judge.lost_node());
  stop_round(job, std::move(stopping), std::move(reason), context);
}

}  // namespace ddprun::rdzv
