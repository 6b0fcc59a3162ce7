#include "rendezvous/client/agent_place.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace ddprun::rdzv {

proto::Join* AgentPlace::pending_join() {
  return pending ? std::get_if<proto::Join>(&*pending) : nullptr;
}

const proto::Leave* AgentPlace::pending_leave() const {
  return pending ? std::get_if<proto::Leave>(&*pending) : nullptr;
}

bool AgentPlace::submit(proto::AgentMessage& message, SessionClock::time_point leave_by) {
  if (const auto* told = std::get_if<proto::Stopped>(&message)) {
    stopped = told->round;
    round.reset();
    is_done = false;
  } else if (std::holds_alternative<proto::WorkersDone>(message)) {
    is_done = true;
  } else if (auto* join = std::get_if<proto::Join>(&message)) {
    join->was_in = past;
    // One that goes does not come back because it was asked before.
    if (pending_leave() != nullptr) return false;
    pending = message;
  } else if (std::holds_alternative<proto::Leave>(message)) {
    pending = message;
    leave_at = leave_by;
  }
  return true;
}

bool AgentPlace::is_new(const proto::MembershipMessage& message) const {
  if (const auto* given = std::get_if<proto::Round>(&message))
    return !past || std::pair(given->epoch, given->number) > std::pair(past->epoch, past->number);
  if (const auto* asked = std::get_if<proto::Stop>(&message))
    return round == asked->round && stop != asked->round;
  if (const auto* asked = std::get_if<proto::Check>(&message)) return check < asked->number;
  return true;
}

void AgentPlace::deliver(const proto::MembershipMessage& message) {
  if (const auto* given = std::get_if<proto::Round>(&message)) {
    round = given->number;
    stopped.reset();
    round_began.reset();
    nodes = given->group_world_size;
    stop.reset();
    past = proto::PastRound{given->epoch, given->number, given->restart_count};
    if (pending_join() != nullptr) pending.reset();
  } else if (const auto* asked = std::get_if<proto::Stop>(&message)) {
    stop = asked->round;
    is_final = asked->final;
  } else if (const auto* planned = std::get_if<proto::RestartPlanned>(&message)) {
    if (past) past->restart_count = std::max(past->restart_count, planned->restart_count);
  } else if (const auto* next = std::get_if<proto::Check>(&message)) {
    check = next->number;
  }
}

bool AgentPlace::miss(proto::RoundNumber missed) {
  if (stop == missed) return false;
  stop = missed;
  stopped.reset();
  round_began.reset();
  return true;
}

void AgentPlace::end_fence() {
  is_fenced = is_done = false;
  round.reset();
}

void AgentPlace::begin_again() {
  stopped.reset();
  round_began.reset();
  stop.reset();
  check = 0;
  if (proto::Join* const join = pending_join()) join->was_in = past;
}

bool AgentPlace::leaves_unanswered(bool is_attached) const {
  const bool has_workers = round && !is_done;
  const bool is_stopping = has_workers && (is_fenced || stop == round);
  return leave_at && !is_stopping && (has_workers || !is_attached);
}

}  // namespace ddprun::rdzv
