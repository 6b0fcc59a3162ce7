// The table of the membership core; what happens while a round is out.
#include "rendezvous/membership/membership.hpp"

#include <fmt/format.h>

#include "base/assert.hpp"
#include "base/describe.hpp"
#include "proto/failure_text.hpp"
#include "rendezvous/membership/verdict.hpp"

namespace ddprun::rdzv {

using proto::AgentId;
using proto::AgentMessage;

std::string_view to_string(JobState state) {
  static constexpr std::array<std::string_view, kJobStates> kNames{"forming", "running", "stopping",
                                                                   "finished"};
  return kNames[static_cast<std::size_t>(state)];
}

std::string_view to_string(EventKind kind) {
  static constexpr std::array<std::string_view, kEventKinds> kNames{
      "join",  "started", "worker_failed", "workers_done", "stopped",
      "leave", "checked", "lost",          "deadline"};
  return kNames[static_cast<std::size_t>(kind)];
}

bool tells(const Send& send, const std::string& warning) {
  if (const auto* remark = std::get_if<proto::Remark>(&send.message))
    return warning.ends_with(remark->text);
  const auto* finished = std::get_if<proto::Finished>(&send.message);
  return finished != nullptr && finished->reason.starts_with(warning);
}

// A row for each event, in the order of EventKind; a column for each state. A test compares the
// table with the one in docs/agent.md.
const Membership::Table Membership::kTable = [] {
  using M = Membership;
  constexpr Response no{&M::ignore, "ignored"};
  constexpr Response enter{&M::join_forming, "wait, form if complete"};
  constexpr Response grow{&M::join_running, "wait, then grow if there is room"};
  constexpr Response wait{&M::join_stopping, "wait"};
  constexpr Response late{&M::greet_late, "told the outcome"};
  constexpr Response fail{&M::fail_running, "stop the round"};
  constexpr Response done{&M::done_running, "finish when all are done"};
  constexpr Response judge{&M::stopped_stopping,
                           "judge when all have stopped and told their times by one clock, then "
                           "form the next round or finish"};
  constexpr Response forget{&M::leave_forming, "forget, or finish"};
  constexpr Response end{&M::leave_running, "end the round"};
  constexpr Response leave{&M::leave_stopping, "leave once stopped"};
  constexpr Response sound{&M::checked_forming, "form if complete, or refuse the node"};
  constexpr Response spare{&M::checked_running, "as a join, or refuse the node"};
  constexpr Response known{&M::checked_stopping, "wait, or refuse the node"};
  constexpr Response lost{&M::lost_forming, "forget"};
  constexpr Response broken{&M::lost_running, "end the round"};
  constexpr Response gone{&M::lost_stopping, "count as stopped"};
  constexpr Response call{&M::deadline_forming, "form after last call, or give up"};
  constexpr Response due{&M::deadline_running, "grow"};
  return Table{{
      // forming, running, stopping, finished
      {enter, grow, wait, late},  // join
      {no, no, no, no},           // started
      {no, fail, no, no},         // worker_failed
      {no, done, no, no},         // workers_done
      {no, no, judge, no},        // stopped
      {forget, end, leave, no},   // leave
      {sound, spare, known, no},  // checked
      {lost, broken, gone, no},   // lost
      {call, due, no, no},        // deadline
  }};
}();

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
              kIsKindOf<EventKind::leave, proto::Leave> &&
              kIsKindOf<EventKind::checked, proto::Checked>);

std::string_view Membership::response(JobState state, EventKind kind) {
  return kTable[static_cast<std::size_t>(kind)][static_cast<std::size_t>(state)].name;
}

Membership::Membership(proto::JobSettings settings, Clock::time_point now, proto::Epoch epoch,
                       Clock::time_point job_began)
    : settings_(std::move(settings)),
      epoch_(epoch),
      job_began_(job_began),
      policy_(settings_.restart),
      forming_since_(now) {
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
  }
  const auto* lost = std::get_if<AgentLost>(&event);
  if (lost != nullptr) {
    agent = &lost->agent;
    kind = EventKind::lost;
  }
  MembershipActions actions;
  Context context{*agent, message, lost, now, actions};
  const JobState before = state_;
  (this->*kTable[static_cast<std::size_t>(kind)][static_cast<std::size_t>(state_)].handler)(
      context);
  if (state_ != before) {
    actions.log = fmt::format("round={} {}->{} event={} agent={} nodes={} reason=\"{}\"",
                              next_round_ == 0 ? 0 : next_round_ - 1, to_string(before),
                              to_string(state_), to_string(kind), *agent, members_.size(), reason_);
  }
  return actions;
}

std::optional<Clock::time_point> Membership::deadline() const {
  if (state_ == JobState::running) return grow_at_;
  if (state_ != JobState::forming) return std::nullopt;
  auto last_call = last_call_at_;
  if (last_call && not_before_) last_call = std::max(*last_call, *not_before_);
  std::optional<Clock::time_point> next;
  if (!will_form()) next = forming_since_ + settings_.join_timeout;
  for (const auto& other : {last_call, not_before_, tell_at_})
    if (other && (!next || *other < *next)) next = other;
  return next;
}

std::optional<proto::MembershipMessage> Membership::current(const AgentId& agent) const {
  if (state_ == JobState::finished) return outcome_for(agent);
  const auto member = members_.find(agent);
  if (member == members_.end()) return std::nullopt;
  if (member->second.phase == Phase::checking) return proto::Check{member->second.check};
  if (!in_round(member->second)) return std::nullopt;
  if (state_ == JobState::stopping) return stop_for(member->second);
  return round_for(*member->second.seat);
}

std::optional<int> Membership::group_rank(const AgentId& agent) const {
  const auto member = members_.find(agent);
  if (member == members_.end() || !in_round(member->second)) return std::nullopt;
  return member->second.seat->group_rank;
}

void Membership::ignore(Context&) {}

void Membership::greet_late(Context& context) {
  context.actions.sends.push_back({context.agent, outcome_for(context.agent)});
}

void Membership::join_running(Context& context) {
  const auto known = members_.find(context.agent);
  if (known != members_.end() && in_round(known->second))
    return;  // a repeated join of a participant
  if (wait(context)) grow_or_spare(context);
}

/// A node that may take part in the next round.
void Membership::grow_or_spare(Context& context) {
  grow_when_due(context);
  Member& member = members_.at(context.agent);
  if (state_ != JobState::running || grow_at_ || member.phase == Phase::checking) return;
  member.is_checked = !member.node.checks_first;  // it may be a spare for long
  tell_spare(context.agent, static_cast<int>(members_.size()) - count(Phase::waiting),
             why_rank_is_taken(context), context);
}

void Membership::tell_spare(const AgentId& agent, int nodes, std::string reason,
                            Context& context) const {
  proto::Waiting waiting;
  waiting.nodes = nodes;
  waiting.min_nodes = settings_.min_nodes;
  waiting.max_nodes = settings_.max_nodes;
  waiting.is_spare = true;
  waiting.reason = std::move(reason);
  context.actions.sends.push_back({agent, std::move(waiting)});
}

/// Of a node that insists on its rank and has to wait. Empty: no node of the round has that rank.
std::string Membership::why_rank_is_taken(const Context& context) const {
  const Node& node = members_.at(context.agent).node;
  if (!node.insists_on_rank || !node.requested_group_rank) return "";
  for (const auto& entry : members_) {
    const Member& member = entry.second;
    if (in_round(member) && member.seat->group_rank == *node.requested_group_rank)
      return fmt::format("--node-rank={} is taken by {}", *node.requested_group_rank, label(entry));
  }
  return "";
}

/// Those that come within the delay of one another cost one restart, not one each.
void Membership::grow_when_due(Context& context) {
  const int taking_part = count(Phase::active) + count(Phase::done) + count(Phase::gone);
  const int room = settings_.max_nodes - taking_part;
  // A round in which a worker is done already is not given up for a newcomer.
  if (!settings_.grow_delay || room <= 0 || taking_part > count(Phase::active) ||
      count(Phase::waiting) == 0) {
    grow_at_.reset();
    return;
  }
  if (!grow_at_) grow_at_ = context.now + *settings_.grow_delay;
  if (count(Phase::waiting) < room && context.now < *grow_at_) return;
  std::string names;
  for (const auto& [id, member] : members_) {
    if (member.phase == Phase::waiting) names += (names.empty() ? "" : ", ") + member.node.name;
  }
  stop_round(context, names + " joined", true);
}

void Membership::deadline_running(Context& context) { grow_when_due(context); }

void Membership::fail_running(Context& context) {
  const auto& failed = std::get<proto::WorkerFailed>(*context.message);
  const auto member = member_in_round(context, failed.round);
  if (member == members_.end()) return;
  const proto::WorkerFailure failure = without_evidence(failed);
  note_began(context.agent, failed.round_began);
  add_failures(context.agent, member->second, {failure});
  failed_at_ = context.now;
  // Which worker is the culprit, and whether there is another round, is decided when all have
  // stopped and reported what they saw. That there can't be one is known now, unless the reason may
  // prove to be a node that is lost: that costs no restart.
  final_ = settings_.max_nodes == 1 && !policy_.budget_left(context.now);
  stop_round(context, describe(failed_.begin()->second), false);
}

void Membership::done_running(Context& context) {
  const auto& done = std::get<proto::WorkersDone>(*context.message);
  const auto member = member_in_round(context, done.round);
  if (member == members_.end()) return;
  note_losses(*member, done.losses);
  set_phase(member->second, Phase::done);
  grow_at_.reset();
  if (count(Phase::active) > 0) return;
  proto::Finished finished;
  finished.reason = "all workers ended with exit code 0";
  finish(context, std::move(finished));
}

void Membership::leave_running(Context& context) {
  const auto found = members_.find(context.agent);
  if (found == members_.end()) return;
  Member& member = found->second;
  const proto::Leave leave = leave_of(member, context);
  if (leave.cancels) {
    member.leaving = leave;
    ending_ = cancelled_by(*found, leave);
    const std::string name = label(*found);
    stop_round(context,
               leave.signal != 0
                   ? fmt::format("the job was stopped by {} on {}", signal_name(leave.signal), name)
                   : leave.error,
               leave.signal != 0);
  } else if (member.phase == Phase::active) {
    member.leaving = leave;
    const std::string name = label(*found);
    stop_round(context,
               leave.signal != 0
                   ? fmt::format("{} was stopped by {}", name, signal_name(leave.signal))
                   : fmt::format("{} left: {}", name, leave.error),
               leave.signal != 0);
  } else {
    if (member.phase == Phase::done) {
      set_phase(member, Phase::gone);
    } else {
      erase(found);
      grow_when_due(context);
    }
    say_goodbye(context, context.agent, leave);
  }
}

/// What it means for the job. At a spare, a person's Ctrl-C does not end the work of the others,
/// which may be another person's.
proto::Leave Membership::leave_of(const Member& member, const Context& context) const {
  proto::Leave leave = std::get<proto::Leave>(*context.message);
  const bool is_spare = formed_any_ && !member.seat;
  leave.cancels = leave.hosts || (leave.cancels && !is_spare);
  return leave;
}

void Membership::lost_running(Context& context) {
  const auto found = members_.find(context.agent);
  if (found == members_.end()) return;
  if (found->second.phase == Phase::done) {
    set_phase(found->second, Phase::gone);  // its work is done
  } else if (found->second.phase == Phase::active) {
    note_lost(*found, context);
    erase(found);
    stop_round(context, describe(*lost_node_), false);
  } else {
    erase(found);
    grow_when_due(context);
  }
}

void Membership::set_phase(Member& member, Phase phase) {
  --counts_[static_cast<std::size_t>(member.phase)];
  ++counts_[static_cast<std::size_t>(phase)];
  member.phase = phase;
}

Membership::Members::iterator Membership::erase(Members::iterator member) {
  --counts_[static_cast<std::size_t>(member->second.phase)];
  release_rank(*member);
  return members_.erase(member);
}

void Membership::release_rank(const Members::value_type& member) {
  const auto& rank = member.second.node.requested_group_rank;
  if (rank) rank_wishes_.erase({*rank, member.first});
  const auto holder = rank ? rank_holders_.find(*rank) : rank_holders_.end();
  if (holder != rank_holders_.end() && holder->second == member.first) rank_holders_.erase(holder);
}

Membership::Members::iterator Membership::member_in_round(const Context& context,
                                                          proto::RoundNumber round) {
  const auto found = members_.find(context.agent);
  const bool takes_part =
      found != members_.end() && in_round(found->second) && round + 1 == next_round_;
  return takes_part ? found : members_.end();
}

bool Membership::in_round(const Member& member) {
  return member.phase == Phase::active || member.phase == Phase::done;
}

}  // namespace ddprun::rdzv
