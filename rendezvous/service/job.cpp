#include "rendezvous/service/job.hpp"

#include <algorithm>
#include <utility>

#include "proto/fit_frame.hpp"

namespace ddprun::rdzv {

using proto::AgentId;

MembershipActions Job::apply(const JobEvent& event, Clock::time_point at) {
  MembershipActions actions;
  std::visit([&](const auto& one) { apply_one(one, at, actions); }, event);
  return actions;
}

std::optional<Clock::time_point> Job::deadline() const {
  return membership_ ? membership_->deadline() : awaited_until_;
}

const Job::Session* Job::session(const AgentId& agent) const {
  const auto found = sessions_.find(agent);
  return found == sessions_.end() ? nullptr : &found->second;
}

std::vector<AgentId> Job::agents_of(const std::string& node_name) const {
  std::vector<AgentId> agents;
  for (auto named = by_node_.lower_bound({node_name, {}});
       named != by_node_.end() && named->first == node_name; ++named)
    agents.push_back(named->second);
  return agents;
}

bool Job::erase_session(const AgentId& agent) {
  const auto found = sessions_.find(agent);
  if (found == sessions_.end()) return false;
  by_node_.erase({found->second.node_name, agent});
  sessions_.erase(found);
  return true;
}

void Job::erase_sessions() {
  by_node_.clear();
  sessions_.clear();
}

std::optional<proto::MembershipMessage> Job::current(const AgentId& agent) const {
  const auto session = sessions_.find(agent);
  if (session == sessions_.end()) return std::nullopt;
  if (session->second.outcome) return *session->second.outcome;
  if (session->second.node_name.empty()) return std::nullopt;
  return membership_ ? membership_->current(agent) : std::nullopt;
}

void Job::apply_one(const JobBegan& began, Clock::time_point, MembershipActions&) {
  incomplete_not_before_ = began.incomplete_not_before;
  if (membership_) membership_->hold_incomplete_until(incomplete_not_before_);
}

void Job::apply_one(const SessionBegan& began, Clock::time_point at, MembershipActions&) {
  Session& session = sessions_[began.agent];
  session.addr = began.addr;
  session.lease = began.lease;
  // One that was cut off, and only waits for the end, joins no more.
  if (ended_in_life_of(began.age, at))
    session.outcome = std::make_shared<const proto::Finished>(outcome_->finished);
}

/// An agent that was there when the job ended is told how; one that was started later means to run
/// the job again.
bool Job::ended_in_life_of(std::chrono::nanoseconds age, Clock::time_point at) const {
  return outcome_ && at - age <= outcome_->at;
}

void Job::apply_one(const Said& said, Clock::time_point at, MembershipActions& actions) {
  const auto found = sessions_.find(said.agent);
  if (found == sessions_.end()) return;
  ++found->second.acknowledged;
  if (std::holds_alternative<proto::Join>(said.message)) {
    join(said, found->second, at, actions);
  } else if (const auto* leave = std::get_if<proto::Leave>(&said.message);
             leave != nullptr && found->second.node_name.empty()) {
    // It could not even join, or joins no more: that is its own end, not the job's.
    found->second.outcome = std::make_shared<const proto::Finished>(proto::outcome_of(*leave));
    actions.sends.push_back({said.agent, *found->second.outcome});
  } else if (membership_) {
    tell(FromAgent{said.agent, said.message}, at, actions);
  }
}

void Job::join(const Said& said, Session& session, Clock::time_point at,
               MembershipActions& actions) {
  const auto& join = std::get<proto::Join>(said.message);
  if (session.node_name != join.node_name) {
    by_node_.erase({session.node_name, said.agent});
    by_node_.emplace(join.node_name, said.agent);
    session.node_name = join.node_name;
  }
  session.boot_id = join.boot_id;
  if (ended_in_life_of(join.age, at)) {
    session.outcome = std::make_shared<const proto::Finished>(outcome_->finished);
    actions.sends.push_back({said.agent, outcome_->finished});
    return;
  }
  if (!membership_ || membership_->outcome()) begin_epoch(join, at);
  tell(FromAgent{said.agent, said.message}, at, actions);
}

void Job::begin_epoch(const proto::Join& join, Clock::time_point at) {
  if (membership_) epoch_ = membership_->epoch() + 1;
  lost_any_ = false;
  awaited_until_.reset();
  membership_.emplace(join.settings, at, epoch_, began_at_);
  membership_->hold_incomplete_until(incomplete_not_before_);
  // Kept: the next epoch may begin before that, too.
  if (hold_until_ && *hold_until_ > at) membership_->hold_until(*hold_until_);
  if (past_) membership_->go_on_from(*std::exchange(past_, std::nullopt));
}

void Job::apply_one(const SessionLost& lost, Clock::time_point at, MembershipActions& actions) {
  const auto found = sessions_.find(lost.agent);
  if (found == sessions_.end()) return;
  if (!found->second.outcome) lost_any_ = true;
  erase_session(lost.agent);
  if (membership_)
    tell(AgentLost{lost.agent, lost.sign, lost.silent_for, lost.silent_for_longer, lost.clock}, at,
         actions);
}

void Job::apply_one(const SessionOver& over, Clock::time_point at, MembershipActions& actions) {
  if (erase_session(over.agent) && membership_) tell(AgentLost{over.agent}, at, actions);
}

void Job::apply_one(const JobOver& over, Clock::time_point at, MembershipActions&) {
  began_at_ = at;  // where this is the first record, that is all that is known
  outcome_ = Outcome{over.finished, over.ended_at};
  epoch_ = over.next_epoch;
  incomplete_not_before_ = over.incomplete_not_before;
  membership_.reset();
  erase_sessions();
}

void Job::apply_one(const PastHeard& past, Clock::time_point, MembershipActions&) {
  past_heard_ = true;
  hold_until_ =
      std::max(hold_until_.value_or(past.workers_may_run_until), past.workers_may_run_until);
  if (membership_) membership_->hold_until(*hold_until_);
}

void Job::apply_one(const MemoryLost& lost, Clock::time_point at, MembershipActions& actions) {
  epoch_ = epoch();
  if (membership_) past_ = membership_->past();
  membership_.reset();
  erase_sessions();
  outcome_.reset();
  lost_any_ = false;
  awaited_until_ = at + kAwaited;
  apply_one(PastHeard{lost.workers_may_run_until}, at, actions);
}

void Job::apply_one(const DeadlinePassed& passed, Clock::time_point at,
                    MembershipActions& actions) {
  if (membership_) {
    tell(passed, at, actions);
  } else if (awaited_until_ && *awaited_until_ <= at) {
    awaited_until_.reset();
  }
}

// ---- snapshots ----

JobOver Job::summary() const {
  return {membership_ ? membership_->epoch() + 1 : epoch_, proto::fitted(outcome_->finished),
          outcome_->at, incomplete_not_before_};
}

std::vector<JobEvent> Job::snapshot() const {
  std::vector<JobEvent> events;
  if (outcome_) events.emplace_back(summary());
  events.emplace_back(JobRestored{began_at_, lost_any_, membership_->snapshot()});
  for (const auto& [agent, session] : sessions_) {
    SessionRestored one{agent,         session.acknowledged,    session.addr,
                        session.lease, session.node_name,       session.boot_id,
                        std::nullopt,  membership_->node(agent)};
    if (session.outcome) one.outcome = proto::fitted(*session.outcome);
    events.emplace_back(std::move(one));
  }
  for (const auto& [process, losses] : membership_->losses())
    events.emplace_back(LossesRestored{process, losses});
  return events;
}

void Job::apply_one(const JobRestored& job, Clock::time_point, MembershipActions&) {
  erase_sessions();
  hold_until_.reset();
  past_.reset();
  awaited_until_.reset();
  began_at_ = job.began_at;
  lost_any_ = job.lost_any;
  incomplete_not_before_ = job.membership.incomplete_not_before;
  membership_.emplace(job.membership, began_at_);
}

void Job::apply_one(const SessionRestored& one, Clock::time_point, MembershipActions&) {
  const auto [entry, is_new] = sessions_.try_emplace(one.agent);
  if (!is_new) return;
  Session& session = entry->second;
  session.acknowledged = one.acknowledged;
  session.addr = one.addr;
  session.lease = one.lease;
  session.node_name = one.node_name;
  session.boot_id = one.boot_id;
  if (one.outcome) session.outcome = std::make_shared<const proto::Finished>(*one.outcome);
  if (!one.node_name.empty()) by_node_.emplace(one.node_name, one.agent);
  if (one.node && membership_) membership_->restore(one.agent, *one.node);
}

void Job::apply_one(const LossesRestored& one, Clock::time_point, MembershipActions&) {
  if (membership_) membership_->restore(one.process, one.losses);
}

void Job::tell(const MembershipEvent& event, Clock::time_point at, MembershipActions& actions) {
  const bool was_over = is_over();
  MembershipActions more = membership_->on(event, at);
  for (Send& send : more.sends) {
    const auto session = sessions_.find(send.to);
    const auto* finished = std::get_if<proto::Finished>(&send.message);
    if (session != sessions_.end() && finished != nullptr)
      session->second.outcome = std::make_shared<const proto::Finished>(*finished);
    actions.sends.push_back(std::move(send));
  }
  actions.warnings.insert(actions.warnings.end(), more.warnings.begin(), more.warnings.end());
  if (!more.log.empty()) {
    if (!actions.log.empty()) actions.log += "; ";
    actions.log += more.log;
  }
  if (!membership_->outcome() || was_over) return;
  outcome_ = Outcome{*membership_->outcome(), at};
  for (auto& [agent, session] : sessions_) {
    if (session.outcome || !session.node_name.empty()) continue;
    session.outcome = std::make_shared<const proto::Finished>(outcome_->finished);
    actions.sends.push_back({agent, outcome_->finished});
  }
}

}  // namespace ddprun::rdzv
