#include "rendezvous/membership/membership.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "proto/assert.hpp"
#include "proto/words.hpp"

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

bool natural_less(std::string_view a, std::string_view b) {
  const auto digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (digit(a[i]) && digit(b[j])) {
      const auto number = [&](std::string_view text, std::size_t& at) {
        while (at < text.size() && text[at] == '0') ++at;
        const std::size_t first = at;
        while (at < text.size() && digit(text[at])) ++at;
        return text.substr(first, at - first);
      };
      const std::string_view x = number(a, i);
      const std::string_view y = number(b, j);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
    }
  }
  if ((a.size() - i) != (b.size() - j)) return a.size() - i < b.size() - j;
  return a < b;  // node01 and node1: still a strict order
}

namespace {

// How the job ends when its last agent leaves.
Finished outcome_of(const proto::Leave& leave) {
  Finished finished;
  finished.outcome = leave.signal != 0 ? Finished::Outcome::cancelled : Finished::Outcome::failed;
  finished.reason =
      leave.signal != 0 ? "stopped by " + proto::signal_name(leave.signal) : leave.error;
  finished.signal = leave.signal;
  return finished;
}

}  // namespace

// Rows: forming, running, stopping, finished. Columns: EventKind. A hole would not compile into a
// Response.
const Membership::Response Membership::kTable[kJobStates][kEventKinds] = {
    {{&Membership::join_forming, "wait, form if complete"},
     {&Membership::ignore, "ignored"},
     {&Membership::ignore, "ignored"},
     {&Membership::ignore, "ignored"},
     {&Membership::ignore, "ignored"},
     {&Membership::leave_forming, "forget, finish if nobody is left"},
     {&Membership::leave_forming, "forget, finish if nobody is left"},
     {&Membership::deadline_forming, "form after last call, or give up"}},
    {{&Membership::join_running, "grow, or wait as a spare"},
     {&Membership::ignore, "ignored"},
     {&Membership::fail_running, "restart, or end as failed"},
     {&Membership::done_running, "finish when all are done"},
     {&Membership::ignore, "ignored"},
     {&Membership::leave_running, "end the round"},
     {&Membership::lost_round, "end the round"},
     {&Membership::ignore, "ignored"}},
    {{&Membership::join_stopping, "wait"},
     {&Membership::ignore, "ignored"},
     {&Membership::ignore, "ignored"},
     {&Membership::ignore, "ignored"},
     {&Membership::stopped_stopping, "form the next round when all have stopped"},
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

std::string_view Membership::response(JobState state, EventKind kind) {
  return kTable[static_cast<int>(state)][static_cast<int>(kind)].name;
}

Membership::Membership(MembershipSettings settings, Clock::time_point now)
    : settings_(settings), forming_since_(now) {
  DDPRUN_ASSERT(1 <= settings.min_nodes && settings.min_nodes <= settings.max_nodes,
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
    kind = static_cast<EventKind>(
        from->message.index());  // EventKind begins in the order of the variant
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
  const Clock::time_point give_up = forming_since_ + settings_.join_timeout;
  return last_call_at_ ? std::min(*last_call_at_, give_up) : give_up;
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
  const int rank = found->second.first_rank + failed.failure.local_rank;
  const std::string what = fmt::format("rank {} {}", rank, proto::describe(failed.failure));
  if (restart_count_ < settings_.max_restarts && failed.failure.error.empty()) {
    ++restart_count_;
    stop_round(context, what, false);
    return;
  }
  Finished finished;
  finished.outcome = Finished::Outcome::failed;
  finished.reason = what;
  finished.culprit_agent = context.agent;
  finished.culprit = failed.failure;
  finished.culprit_rank = rank;
  pending_ = std::move(finished);
  stop_round(context, what, true);
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
  if (found->second.leaving) {
    const proto::Leave leave = *found->second.leaving;
    members_.erase(found);
    if (members_.empty()) {
      finish(context, final_ ? *pending_ : outcome_of(leave));
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
             leave.signal != 0 ? fmt::format("{} was stopped by {}", context.agent,
                                             proto::signal_name(leave.signal))
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
  if (last_call_at_ && context.now >= *last_call_at_ &&
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

void Membership::try_form(Context& context) {
  const int waiting = count(Member::Phase::waiting);
  if (waiting >= settings_.max_nodes) {
    form(context);
  } else if (waiting >= settings_.min_nodes && !last_call_at_) {
    last_call_at_ = context.now + settings_.last_call;
  }
}

std::vector<AgentId> Membership::ranked_waiting() const {
  std::vector<AgentId> ids;
  for (const auto& [id, member] : members_) {
    if (member.phase == Member::Phase::waiting) ids.push_back(id);
  }
  // Who has had a rank keeps a place before newcomers; among newcomers a requested rank, then the
  // node's name.
  const auto key = [this](const AgentId& id) {
    const Member& member = members_.at(id);
    constexpr int kNone = 1 << 30;
    const int requested = member.join.requested_group_rank.value_or(kNone);
    const int sticky = member.last_group_rank >= 0 ? member.last_group_rank : kNone;
    return std::pair(requested, sticky);
  };
  std::sort(ids.begin(), ids.end(), [&](const AgentId& a, const AgentId& b) {
    const auto ka = key(a);
    const auto kb = key(b);
    if (ka != kb) return ka < kb;
    const Member& ma = members_.at(a);
    const Member& mb = members_.at(b);
    if (natural_less(ma.join.node_name, mb.join.node_name)) return true;
    if (natural_less(mb.join.node_name, ma.join.node_name)) return false;
    return ma.order < mb.order;
  });
  if (static_cast<int>(ids.size()) > settings_.max_nodes) {
    ids.resize(static_cast<std::size_t>(settings_.max_nodes));  // the rest are spares
  }
  return ids;
}

void Membership::form(Context& context) {
  const std::vector<AgentId> ids = ranked_waiting();
  int world_size = 0;
  std::map<std::string, int> role_sizes;
  for (const AgentId& id : ids) {
    const proto::Join& join = members_.at(id).join;
    world_size += join.local_world_size;
    role_sizes[join.role] += join.local_world_size;
  }
  const proto::Join& first = members_.at(ids.front()).join;
  int first_rank = 0;
  std::map<std::string, int> role_ranks;
  for (std::size_t group_rank = 0; group_rank < ids.size(); ++group_rank) {
    Member& member = members_.at(ids[group_rank]);
    member.phase = Member::Phase::active;
    member.group_rank = member.last_group_rank = static_cast<int>(group_rank);
    member.first_rank = first_rank;
    proto::Round round;
    round.number = next_round_;
    round.reason = reason_;
    round.group_rank = member.group_rank;
    round.group_world_size = static_cast<int>(ids.size());
    round.first_rank = first_rank;
    round.world_size = world_size;
    round.first_role_rank = role_ranks[member.join.role];
    round.role_world_size = role_sizes[member.join.role];
    round.restart_count = restart_count_;
    round.max_restarts = settings_.max_restarts;
    round.master_addr = first.store_addr;
    round.master_port = first.store_port;
    round.workers.assign(static_cast<std::size_t>(member.join.local_world_size),
                         proto::WorkerDirective::replace);
    first_rank += member.join.local_world_size;
    role_ranks[member.join.role] += member.join.local_world_size;
    context.actions.sends.push_back({ids[group_rank], std::move(round)});
  }
  ++next_round_;
  last_call_at_.reset();
  state_ = JobState::running;
}

void Membership::stop_round(Context& context, const std::string& reason, bool final) {
  reason_ = reason;
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
  if (members_.empty() && !final_) {
    finish(context, outcome_of({0, "every node was lost"}));
  } else if (final_) {
    DDPRUN_ASSERT(pending_.has_value(), "a final stop leads to an outcome");
    finish(context, *pending_);
  } else {
    start_forming(context);
  }
}

void Membership::start_forming(Context& context) {
  state_ = JobState::forming;
  forming_since_ = context.now;
  last_call_at_.reset();
  try_form(context);
}

void Membership::finish(Context& context, Finished finished) {
  finished.restart_count = restart_count_;
  finished.max_restarts = settings_.max_restarts;
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
