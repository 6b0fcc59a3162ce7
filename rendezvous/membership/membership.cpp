#include "rendezvous/membership/membership.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "base/describe.hpp"
#include "proto/failure_text.hpp"
#include "rendezvous/membership/verdict.hpp"

namespace ddprun::rdzv {

using proto::AgentId;
using proto::AgentMessage;
using proto::Finished;

std::string_view to_string(JobState state) {
  static constexpr std::array<std::string_view, kJobStates> kNames{"forming", "running", "stopping",
                                                                   "finished"};
  return kNames[static_cast<std::size_t>(state)];
}

std::string_view to_string(EventKind kind) {
  static constexpr std::array<std::string_view, kEventKinds> kNames{
      "join", "started", "worker_failed", "workers_done", "stopped", "leave", "lost", "deadline"};
  return kNames[static_cast<std::size_t>(kind)];
}

namespace {

// How the job ends when its last agent leaves.
Finished outcome_of(const proto::Leave& leave) {
  Finished finished;
  finished.outcome = leave.signal != 0 ? Finished::Outcome::cancelled : Finished::Outcome::failed;
  finished.reason = leave.signal != 0 ? "stopped by " + signal_name(leave.signal) : leave.error;
  finished.signal = leave.signal;
  return finished;
}

}  // namespace

// Rows: JobState. Columns: EventKind. A test compares the table with the one in docs/agent.md.
const Membership::Response Membership::kTable[kJobStates][kEventKinds] = {
    {{&Membership::join_forming, "wait, form if complete"},
     {&Membership::ignore, "ignored"},
     {&Membership::ignore, "ignored"},
     {&Membership::ignore, "ignored"},
     {&Membership::ignore, "ignored"},
     {&Membership::leave_forming, "forget, finish if none is left"},
     {&Membership::leave_forming, "forget, finish if none is left"},
     {&Membership::deadline_forming, "form after last call, or give up"}},
    {{&Membership::join_running, "grow, or wait as a spare"},
     {&Membership::ignore, "ignored"},
     {&Membership::fail_running, "stop the round"},
     {&Membership::done_running, "finish when all are done"},
     {&Membership::ignore, "ignored"},
     {&Membership::leave_running, "end the round"},
     {&Membership::lost_round, "end the round"},
     {&Membership::ignore, "ignored"}},
    {{&Membership::join_stopping, "wait"},
     {&Membership::ignore, "ignored"},
     {&Membership::ignore, "ignored"},
     {&Membership::ignore, "ignored"},
     {&Membership::stopped_stopping,
      "judge when all have stopped, then form the next round or finish"},
     {&Membership::leave_stopping, "leave once stopped"},
     {&Membership::lost_round, "count as stopped"},
     {&Membership::ignore, "ignored"}},
    {{&Membership::greet_late, "told the outcome"},
     {&Membership::ignore, "ignored"},
     {&Membership::ignore, "ignored"},
     {&Membership::ignore, "ignored"},
     {&Membership::ignore, "ignored"},
     {&Membership::ignore, "ignored"},
     {&Membership::ignore, "ignored"},
     {&Membership::ignore, "ignored"}},
};

// EventKind begins in the order of the variant.
template <EventKind kKind, class Message>
constexpr bool kIsKindOf =
    std::is_same_v<std::variant_alternative_t<static_cast<std::size_t>(kKind), proto::AgentMessage>,
                   Message>;
static_assert(kIsKindOf<EventKind::join, proto::Join> &&
              kIsKindOf<EventKind::started, proto::Started> &&
              kIsKindOf<EventKind::worker_failed, proto::WorkerFailed> &&
              kIsKindOf<EventKind::workers_done, proto::WorkersDone> &&
              kIsKindOf<EventKind::stopped, proto::Stopped> &&
              kIsKindOf<EventKind::leave, proto::Leave>);

std::string_view Membership::response(JobState state, EventKind kind) {
  return kTable[static_cast<int>(state)][static_cast<int>(kind)].name;
}

Membership::Membership(proto::JobSettings settings, Clock::time_point now)
    : settings_(std::move(settings)), policy_(settings_.restart), forming_since_(now) {
  DDPRUN_ASSERT(1 <= settings_.min_nodes && settings_.min_nodes <= settings_.max_nodes,
                "1 <= min_nodes <= max_nodes");
}

MembershipActions Membership::on(const MembershipEvent& event, Clock::time_point now) {
  static const AgentId kNobody;
  const AgentId* agent = &kNobody;
  const AgentMessage* message = nullptr;
  EventKind kind = EventKind::deadline;
  if (const auto* from = std::get_if<FromAgent>(&event)) {
    agent = &from->agent;
    message = &from->message;
    kind = static_cast<EventKind>(from->message.index());
  } else if (const auto* lost = std::get_if<AgentLost>(&event)) {
    agent = &lost->agent;
    kind = EventKind::lost;
  }
  MembershipActions actions;
  Context context{*agent, message, now, actions};
  const JobState before = state_;
  const Response& response = kTable[static_cast<int>(state_)][static_cast<int>(kind)];
  (this->*response.handler)(context);
  if (state_ != before) {
    actions.log = fmt::format("round={} {}->{} event={} agent={} nodes={} reason=\"{}\"",
                              next_round_ == 0 ? 0 : next_round_ - 1, to_string(before),
                              to_string(state_), to_string(kind), *agent, members_.size(), reason_);
  }
  return actions;
}

std::optional<Clock::time_point> Membership::deadline() const {
  if (state_ != JobState::forming) return std::nullopt;
  Clock::time_point next = forming_since_ + settings_.join_timeout;
  if (last_call_at_) next = std::min(next, *last_call_at_);
  if (not_before_) next = std::min(next, *not_before_);
  return next;
}

void Membership::ignore(Context&) {}

void Membership::wait(Context& context) {
  Member& member = members_[context.agent];
  member.phase = Member::Phase::waiting;
  member.join = std::get<proto::Join>(*context.message);
  member.order = joins_++;
  member.group_rank = -1;
}

void Membership::join_forming(Context& context) {
  wait(context);
  try_form(context);
}

void Membership::join_stopping(Context& context) { wait(context); }

void Membership::join_running(Context& context) {
  const auto known = members_.find(context.agent);
  if (known != members_.end() && in_round(known->second))
    return;  // a repeated join of a participant
  wait(context);
  const int taking_part = count(Member::Phase::active) + count(Member::Phase::done);
  // A round in which somebody is done already is not given up for a newcomer.
  if (taking_part < settings_.max_nodes && count(Member::Phase::done) == 0) {
    stop_round(context, fmt::format("{} joined", context.agent), false);
  }
}

void Membership::fail_running(Context& context) {
  const auto& failed = std::get<proto::WorkerFailed>(*context.message);
  const auto found = members_.find(context.agent);
  if (found == members_.end() || !in_round(found->second) || failed.round + 1 != next_round_)
    return;
  const proto::WorkerFailure failure = without_evidence(failed);
  add_failures(context.agent, found->second, {failure});
  failed_at_ = context.now;
  // Which worker is the culprit, and whether there is another round, is decided when all have
  // stopped and reported what they saw. That there can't be one is known now.
  stop_round(context, fmt::format("rank {} {}", failed_.front().rank, describe(failure)),
             !policy_.budget_left(context.now));
}

void Membership::done_running(Context& context) {
  const auto found = members_.find(context.agent);
  const auto& done = std::get<proto::WorkersDone>(*context.message);
  if (found == members_.end() || !in_round(found->second) || done.round + 1 != next_round_) return;
  found->second.phase = Member::Phase::done;
  if (count(Member::Phase::active) > 0) return;
  Finished finished;
  finished.reason = "all workers ended with exit code 0";
  finish(context, std::move(finished));
}

void Membership::stopped_stopping(Context& context) {
  const auto found = members_.find(context.agent);
  const auto& stopped = std::get<proto::Stopped>(*context.message);
  if (found == members_.end() || !in_round(found->second) || stopped.round + 1 != next_round_)
    return;
  if (!failed_.empty()) add_failures(context.agent, found->second, stopped.failures);
  for (const proto::RunningWorker& worker : stopped.still_ran)
    still_ran_.push_back({context.agent, found->second.first_rank + worker.local_rank, worker});
  if (stopped.furthest_step)
    furthest_step_ = std::max(furthest_step_.value_or(0), *stopped.furthest_step);
  if (found->second.leaving) {
    const proto::Leave leave = *found->second.leaving;
    members_.erase(found);
    if (members_.empty()) {
      // A worker failed, and then this node could not go on: the worker's failure is the story.
      const bool failed = final_ || (!failed_.empty() && leave.signal == 0);
      finish(context, failed ? failed_outcome(judge(std::move(failed_), std::move(still_ran_)),
                                              final_ ? "" : leave.error)
                             : outcome_of(leave));
      context.actions.sends.push_back(
          {context.agent, *outcome_});  // no member any more, yet it waits for the end
      return;
    }
  } else {
    found->second.phase = Member::Phase::stopped;
  }
  check_stopped(context);
}

void Membership::leave_forming(Context& context) {
  if (members_.erase(context.agent) == 0) {
    // It could not even join (its port is taken, say). That is its own end, not the job's.
    if (context.message != nullptr) {
      context.actions.sends.push_back(
          {context.agent, outcome_of(std::get<proto::Leave>(*context.message))});
    }
    return;
  }
  if (count(Member::Phase::waiting) < settings_.min_nodes) last_call_at_.reset();
  if (!members_.empty()) return;
  finish(context, context.message != nullptr ? outcome_of(std::get<proto::Leave>(*context.message))
                                             : outcome_of({0, "every node was lost"}));
  context.actions.sends.push_back({context.agent, *outcome_});
}

void Membership::leave_running(Context& context) {
  const auto found = members_.find(context.agent);
  if (found == members_.end()) return;
  if (!in_round(found->second)) {  // a spare
    members_.erase(found);
    return;
  }
  found->second.leaving = std::get<proto::Leave>(*context.message);
  const auto& leave = *found->second.leaving;
  stop_round(context,
             leave.signal != 0
                 ? fmt::format("{} was stopped by {}", context.agent, signal_name(leave.signal))
                 : fmt::format("{} left: {}", context.agent, leave.error),
             false);
}

void Membership::leave_stopping(Context& context) {
  const auto found = members_.find(context.agent);
  if (found == members_.end()) return;
  if (found->second.phase == Member::Phase::active || found->second.phase == Member::Phase::done) {
    found->second.leaving = std::get<proto::Leave>(*context.message);  // goes when it has stopped
    return;
  }
  lost_round(context);
}

void Membership::lost_round(Context& context) {
  const auto found = members_.find(context.agent);
  if (found == members_.end()) return;
  const bool took_part = in_round(found->second);
  members_.erase(found);
  if (state_ == JobState::running && took_part) {
    stop_round(context, fmt::format("{} was lost", context.agent), false);
  } else if (state_ == JobState::stopping) {
    check_stopped(context);
  }
}

void Membership::deadline_forming(Context& context) {
  if (not_before_ && context.now >= *not_before_) {
    not_before_.reset();
    try_form(context);
    if (state_ != JobState::forming) return;
  }
  if (!not_before_ && last_call_at_ && context.now >= *last_call_at_ &&
      count(Member::Phase::waiting) >= settings_.min_nodes) {
    form(context);
    return;
  }
  if (context.now < forming_since_ + settings_.join_timeout) return;
  Finished finished;
  finished.outcome = Finished::Outcome::failed;
  finished.reason =
      fmt::format("no round formed within the join timeout of {} s: {} of at least {} nodes joined",
                  std::chrono::duration_cast<std::chrono::seconds>(settings_.join_timeout).count(),
                  count(Member::Phase::waiting), settings_.min_nodes);
  finish(context, std::move(finished));
}

void Membership::greet_late(Context& context) {
  context.actions.sends.push_back({context.agent, *outcome_});
}

void Membership::stop_round(Context& context, const std::string& reason, bool final) {
  reason_ = reason;
  furthest_step_.reset();
  still_ran_.clear();
  final_ = final;
  state_ = JobState::stopping;
  for (const auto& [id, member] : members_) {
    if (!in_round(member)) continue;
    proto::Stop stop;
    stop.round = next_round_ - 1;
    stop.reason = reason;
    stop.final = final || member.leaving.has_value();
    context.actions.sends.push_back({id, std::move(stop)});
  }
  check_stopped(context);
}

void Membership::check_stopped(Context& context) {
  if (count(Member::Phase::active) + count(Member::Phase::done) > 0) return;
  if (!failed_.empty()) {
    judge_round(context);
  } else if (members_.empty()) {
    finish(context, outcome_of({0, "every node was lost"}));
  } else {
    start_forming(context);
  }
}

/// What is said last of a worker counts: at first only its end was known.
void Membership::add_failures(const AgentId& agent, const Member& member,
                              const std::vector<proto::WorkerFailure>& failures) {
  for (const proto::WorkerFailure& failure : failures) {
    proto::FailedWorker worker{agent, member.first_rank + failure.local_rank, failure};
    const auto known =
        std::find_if(failed_.begin(), failed_.end(),
                     [&](const proto::FailedWorker& other) { return other.rank == worker.rank; });
    if (known != failed_.end()) {
      *known = std::move(worker);
    } else {
      failed_.push_back(std::move(worker));
    }
  }
}

void Membership::judge_round(Context& context) {
  proto::Verdict verdict = judge(std::move(failed_), std::move(still_ran_));
  failed_.clear();
  // The budget as it was when the round failed: the agents were told then whether a round can
  // follow.
  const RestartDecision decision =
      policy_.decide(verdict.culprit.failure, furthest_step_, failed_at_);
  if (decision.restart && !members_.empty()) {
    reason_ = fmt::format("rank {} {}", verdict.culprit.rank, describe(verdict.culprit.failure));
    if (decision.delay.count() > 0) announce_restart(context, decision.delay);
    last_culprit_ = without_lines(std::move(verdict.culprit));
    start_forming(context, std::chrono::duration_cast<Clock::duration>(decision.delay));
  } else {
    finish(context, failed_outcome(std::move(verdict), decision.reason));
  }
}

void Membership::announce_restart(Context& context, std::chrono::nanoseconds delay) const {
  for (const auto& [id, member] : members_) {
    proto::RestartPlanned planned;
    planned.reason = reason_;
    planned.delay = delay;
    planned.restart_count = policy_.restart_count();
    planned.max_restarts = settings_.restart.max_restarts;
    context.actions.sends.push_back({id, std::move(planned)});
  }
}

Finished Membership::failed_outcome(proto::Verdict verdict, std::string no_restart) const {
  Finished finished;
  finished.outcome = Finished::Outcome::failed;
  finished.reason =
      fmt::format("rank {} {}", verdict.culprit.rank, describe(verdict.culprit.failure));
  finished.verdict = std::move(verdict);
  finished.no_restart = std::move(no_restart);
  return finished;
}

void Membership::finish(Context& context, Finished finished) {
  finished.restart_count = policy_.restart_count();
  finished.max_restarts = settings_.restart.max_restarts;
  outcome_ = std::move(finished);
  reason_ = outcome_->reason;
  state_ = JobState::finished;
  for (const auto& [id, member] : members_) context.actions.sends.push_back({id, *outcome_});
}

int Membership::count(Member::Phase phase) const {
  return static_cast<int>(
      std::count_if(members_.begin(), members_.end(),
                    [phase](const auto& entry) { return entry.second.phase == phase; }));
}

bool Membership::in_round(const Member& member) const {
  return member.phase == Member::Phase::active || member.phase == Member::Phase::done;
}

}  // namespace ddprun::rdzv
