// Which messages are sent and received, and in which order.
#include "rendezvous/client/agent_session.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "proto/message_limits.hpp"

namespace ddprun::rdzv {

using namespace std::chrono_literals;
using proto::Finished;
using proto::Stop;

namespace {

/// One that goes does not wait longer for a service that it does not reach.
constexpr std::chrono::nanoseconds kAnswerToLeave = 1s;

/// What a message of the service means. Only one that counts is a sign of life: a program that
/// sends others holds no agent beyond its time-outs.
enum class MessageEffect { breaks, ignored, counts };

/// A row for each Link, a column for each kind of ServiceMessage. A service may refuse this node
/// before the channel is open.
constexpr auto kEffects = [] {
  using enum MessageEffect;
  return std::array<std::array<MessageEffect, 6>, 5>{{
      // prove, welcome, alive,  refused, status,  of the job
      {ignored, ignored, ignored, ignored, ignored, ignored},  // waiting
      {ignored, ignored, ignored, counts, ignored, ignored},   // connecting
      {breaks, counts, breaks, counts, breaks, breaks},        // resuming
      {breaks, breaks, counts, counts, breaks, counts},        // attached
      {breaks, breaks, ignored, counts, breaks, ignored},      // unknown
  }};
}();
static_assert(std::variant_size_v<proto::ServiceMessage> == kEffects[0].size());

}  // namespace

AgentSession::AgentSession(SessionSettings settings, SessionClock::time_point now)
    : settings_(std::move(settings)),
      random_(settings_.seed),
      own_id_(settings_.agent),
      began_at_(now),
      lease_(settings_.lease),
      period_(settings_.lease / 5),
      attempt_at_(now),
      next_attempt_at_(now),
      pause_(0ns) {}

SessionActions AgentSession::on(SessionEvent event, SessionClock::time_point now) {
  SessionActions actions;
  if (over_) return actions;
  Context context{now, actions};
  std::visit([&](auto& one) { take(one, context); }, event);
  return actions;
}

// ---- from the agent ----

void AgentSession::take(Submitted& submitted, Context& context) {
  proto::AgentMessage& message = submitted.message;
  if (submitted.round_began) round_began_ = submitted.round_began;
  const bool stopped = std::holds_alternative<proto::Stopped>(message);
  if (fenced_) {
    // The service counts this node as lost, or never knew of it: it is told of nothing but what
    // comes next.
    if (std::holds_alternative<proto::Leave>(message)) {
      pending_ = std::move(message);
      leave_at_ = context.now + kAnswerToLeave;
    }
    if (!stopped) return;
    fenced_ = done_ = false;
    round_.reset();
    begin_again(context);
    return;
  }
  if (const auto* failed = std::get_if<proto::WorkerFailed>(&message))
    tell_of_failure(*failed, context);
  if (stopped) {
    stopped_ = std::get<proto::Stopped>(message).round;
    round_.reset();
    done_ = false;
  } else if (std::holds_alternative<proto::WorkersDone>(message)) {
    done_ = true;
  } else if (auto* join = std::get_if<proto::Join>(&message)) {
    join->was_in = past_;
    // One that goes does not come back because it was asked before.
    if (pending_ && std::holds_alternative<proto::Leave>(*pending_)) return;
    pending_ = message;
  } else if (std::holds_alternative<proto::Leave>(message)) {
    pending_ = message;
    // A service that has just been told of this agent would wait for a lease, were it not told of
    // its end.
    const bool is_reached = heard_at_ || link_ == Link::resuming;
    leave_at_ = is_reached ? context.now + kAnswerToLeave : context.now;
  }
  send_numbered(std::move(message), context);
}

void AgentSession::send_numbered(proto::AgentMessage message, Context& context) {
  unacknowledged_.push_back({next_seq_++, std::move(message)});
  if (link_ == Link::attached) send(unacknowledged_.back(), context);
}

void AgentSession::send(const proto::Numbered& numbered, Context& context) {
  proto::Numbered now = numbered;
  if (auto* join = std::get_if<proto::Join>(&now.message)) join->age = context.now - began_at_;
  // By the clock of the service that hears it: another one may have taken over since.
  if (round_began_) {
    const auto began = job_clock_.job_time_of_origin(*round_began_, context.now);
    if (auto* failed = std::get_if<proto::WorkerFailed>(&now.message)) failed->round_began = began;
    if (auto* stopped = std::get_if<proto::Stopped>(&now.message)) stopped->round_began = began;
  }
  context.act(SendToService{std::move(now)});
}

// ---- from the service ----

void AgentSession::take(ServiceSaid& said, Context& context) {
  switch (kEffects[static_cast<std::size_t>(link_)][said.message.index()]) {
    case MessageEffect::ignored:
      return;
    case MessageEffect::breaks:
      break_off(context);
      return;
    case MessageEffect::counts:
      std::visit([&](auto& message) { hear(message, context); }, said.message);
  }
}

/// That is no service which this agent can use. Another attempt may find the right one.
void AgentSession::break_off(Context& context) {
  trouble_ = "it breaks the protocol of a rendezvous";
  refused_ = false;
  context.act(ResetConnection{});
  reconnect_later(context);
}

void AgentSession::hear(proto::Prove&, Context&) {}
void AgentSession::hear(proto::Status&, Context&) {}

void AgentSession::hear(proto::Welcome& welcome, Context& context) {
  const bool can_be_kept = welcome.lease >= proto::kLeaseMin && welcome.lease <= proto::kLeaseMax &&
                           welcome.keep_alive_period > welcome.lease / 100 &&
                           welcome.keep_alive_period * kUnansweredMax < welcome.lease;
  if (!can_be_kept) return break_off(context);
  heard_at_ = context.now;
  lease_ = welcome.lease;
  period_ = welcome.keep_alive_period;
  direct_ = welcome.direct;
  in_agent_ = welcome.in_agent;
  asked_.clear();
  const bool same_clock = job_clock_.clock() == welcome.clock;
  job_clock_.reset(welcome.clock);  // a service that was started again may count otherwise
  job_clock_.add({attempt_at_, welcome.job_time, welcome.job_time, context.now});
  keep_alive_at_ = context.now;
  tell_of_return(context);
  if (epoch_ && !welcome.resumed) {
    link_ = Link::unknown;
    if (fenced_) return;
    if (round_) {
      fence("the rendezvous does not know this node any more", context);
    } else {
      begin_again(context);
    }
    return;
  }
  link_ = Link::attached;
  epoch_ = welcome.epoch;
  welcomed_as_ = own_id_;
  renew_lease(attempt_at_ + lease_, context);
  forget_up_to(welcome.acknowledged);
  for (const proto::Numbered& message : unacknowledged_) send(message, context);
  if (!same_clock) tell_again_when_round_began(context);
}

/// The service before this one knows of the round that has stopped here, by a clock of its own.
void AgentSession::tell_again_when_round_began(Context& context) {
  if (!stopped_ || !round_began_) return;
  const bool is_told = std::none_of(unacknowledged_.begin(), unacknowledged_.end(), [](auto& one) {
    return std::holds_alternative<proto::Stopped>(one.message);
  });
  if (is_told) send_numbered(proto::Stopped{*stopped_, {}}, context);
}

void AgentSession::forget_up_to(std::uint64_t acknowledged) {
  while (!unacknowledged_.empty() && unacknowledged_.front().seq <= acknowledged)
    unacknowledged_.pop_front();
}

void AgentSession::hear(proto::Alive& alive, Context& context) {
  heard_at_ = context.now;
  pause_ = 0ns;
  forget_up_to(alive.acknowledged);
  while (!asked_.empty() && asked_.front().first <= alive.number) {
    const auto [number, sent] = asked_.front();
    asked_.pop_front();
    if (number != alive.number) continue;
    renew_lease(sent + lease_, context);
    job_clock_.add({sent, alive.received, alive.answered, context.now});
  }
}

void AgentSession::hear(proto::Refused& refused, Context& context) {
  // After the first welcome it may be a stranger that has taken the port of a service which is
  // being started again.
  if (refused.why == proto::Refused::Why::limit || !welcomed_as_.empty()) {
    trouble_ = refused.reason;
    context.act(ResetConnection{});
    reconnect_later(context);
    return;
  }
  context.act(ResetConnection{});
  const std::string_view what =
      refused.why == proto::Refused::Why::certificate ? "cannot be used" : "refuses this node";
  finish(fmt::format("the rendezvous at {} {}: {}", settings_.service, what, refused.reason),
         context);
}

void AgentSession::hear(proto::MembershipMessage& message, Context& context) {
  heard_at_ = context.now;
  if (fenced_) return;
  if (const auto* stop = std::get_if<proto::Stop>(&message); stop != nullptr && !round_)
    answer_for_missed_round(stop->round, context);
  if (!is_new(message)) return;
  if (const auto* round = std::get_if<proto::Round>(&message)) {
    // It may have been on its way for long: under a lease that is over nothing is started.
    if (!lease_end_ || context.now >= *lease_end_) {
      context.act(ResetConnection{});
      reconnect_later(context);
      return;
    }
    epoch_ = round->epoch;
    round_ = round->number;
    stopped_.reset();
    round_began_.reset();
    nodes_ = round->group_world_size;
    stop_.reset();
    past_ = proto::PastRound{round->epoch, round->number, round->restart_count};
    if (pending_ && std::holds_alternative<proto::Join>(*pending_)) pending_.reset();
  } else if (const auto* stop = std::get_if<proto::Stop>(&message)) {
    stop_ = stop->round;
    final_ = stop->final;
  } else if (const auto* planned = std::get_if<proto::RestartPlanned>(&message)) {
    if (past_) past_->restart_count = std::max(past_->restart_count, planned->restart_count);
  } else if (const auto* check = std::get_if<proto::Check>(&message)) {
    check_ = check->number;
  } else if (std::holds_alternative<Finished>(message)) {
    over_ = true;
    context.act(SendToService{proto::Bye{}});
  }
  context.act(Deliver{std::move(message)});
}

/// It formed and was stopped while this agent was away: nothing of it is here, and the agent still
/// waits.
void AgentSession::answer_for_missed_round(proto::RoundNumber round, Context& context) {
  if (stop_ == round) return;
  stop_ = round;
  stopped_.reset();
  round_began_.reset();
  send_numbered(proto::Stopped{round, {}}, context);
  if (pending_ && std::holds_alternative<proto::Join>(*pending_)) send_numbered(*pending_, context);
}

/// The service says again what may not have arrived.
bool AgentSession::is_new(const proto::MembershipMessage& message) const {
  if (const auto* round = std::get_if<proto::Round>(&message))
    return !past_ ||
           std::pair(round->epoch, round->number) > std::pair(past_->epoch, past_->number);
  if (const auto* stop = std::get_if<proto::Stop>(&message))
    return round_ == stop->round && stop_ != stop->round;
  if (const auto* check = std::get_if<proto::Check>(&message)) return check_ < check->number;
  return true;
}

// ---- fences ----

/// Kills the workers, without last words: they must not write what a newer round has begun anew.
void AgentSession::fence(const std::string& reason, Context& context) {
  fenced_ = true;
  proto::Stop stop;
  stop.round = *round_;
  stop.reason = reason;
  stop.kill = true;
  context.act(Deliver{std::move(stop)});
}

/// Nothing is left here, and the old session is over: another one begins, with what the agent still
/// waits for.
void AgentSession::begin_again(Context& context) {
  // The job may have ended after the service gave this node up: then the outcome is the first that
  // the new session hears. Otherwise the answer to this is what the service knows.
  if (final_ && !pending_ && link_ == Link::unknown)
    pending_ = proto::Leave{
        0, fmt::format(
               "the rendezvous at {} does not know this node any more, and the job was ending; "
               "its outcome is unknown",
               settings_.service)};
  own_id_ = fmt::format("{}/{}", settings_.agent, ++sessions_);
  epoch_.reset();
  stopped_.reset();
  round_began_.reset();
  stop_.reset();  // another service may give the number again
  check_ = 0;
  unacknowledged_.clear();
  next_seq_ = 1;
  if (auto* join = pending_ ? std::get_if<proto::Join>(&*pending_) : nullptr) join->was_in = past_;
  if (link_ == Link::attached || link_ == Link::resuming) {
    // That connection is of the old session.
    context.act(ResetConnection{});
    connect(context);
  } else if (link_ == Link::unknown) {
    resume(context);
  }
  if (pending_) send_numbered(*pending_, context);
}

// ---- ends ----

/// The job is over for this node, whatever becomes of it elsewhere.
void AgentSession::finish(std::string reason, Context& context) {
  over_ = true;
  Finished finished;
  finished.outcome = Finished::Outcome::failed;
  finished.reason = std::move(reason);
  if (past_) finished.restart_count = past_->restart_count;
  context.act(Deliver{std::move(finished)});
}

/// The service does not answer: this node ends its part in the job by itself. One that is attached
/// and has no workers may have to wait for other nodes.
bool AgentSession::leaves_unanswered() const {
  const bool has_workers = round_ && !done_;
  const bool is_stopping = has_workers && (fenced_ || stop_ == round_);
  return leave_at_ && !is_stopping && (has_workers || link_ != Link::attached);
}

void AgentSession::leave_unanswered(Context& context) {
  const auto& leave = std::get<proto::Leave>(*pending_);
  if (round_ && !done_) {
    stop_ = round_;
    context.act(Deliver{Stop{*round_, "this node leaves", true, false, leave.signal != 0}});
    return;
  }
  over_ = true;
  context.act(ResetConnection{});
  context.act(Deliver{proto::outcome_of(leave)});
}

void AgentSession::give_up(Context& context) {
  const auto seconds = [](std::chrono::nanoseconds time) {
    return fmt::format("{} s", std::chrono::duration_cast<std::chrono::seconds>(time).count());
  };
  const std::string why = trouble_.empty() ? "" : ": " + trouble_;
  if (!heard_at_) {
    const std::string elsewhere =
        why_elsewhere_.empty() ? "" : "; it is not on this node: " + why_elsewhere_;
    finish(fmt::format("no rendezvous answered at {} for {}{}{}", settings_.service,
                       seconds(settings_.join_timeout), why, elsewhere),
           context);
    return;
  }
  const std::string node =
      !in_agent_ ? ""
                 : fmt::format(
                       "; the node that ran it is {}, and the job needs it (with rdzvd on "
                       "another machine it does not)",
                       refused_ ? "gone" : "gone or cut off");
  finish(fmt::format("the rendezvous at {} has not answered for {}{}{}{}", settings_.service,
                     seconds(lost_after()), why, node,
                     done_ ? "; this node's workers succeeded, the job's outcome is unknown" : ""),
         context);
}

}  // namespace ddprun::rdzv
