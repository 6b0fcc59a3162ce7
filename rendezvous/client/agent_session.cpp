// Which messages are sent and received, and in which order.
#include "rendezvous/client/agent_session.hpp"

#include <algorithm>
#include <array>
#include <type_traits>

#include <fmt/format.h>

#include "proto/failure_text.hpp"
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

/// A row for each state of the link, a column for each kind of ServiceMessage. A service may refuse
/// this node before the channel is open.
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

/// It is not known now whether the job goes on.
std::string failure_line(const proto::WorkerFailed& failed, const std::string& service,
                         std::chrono::nanoseconds left) {
  proto::WorkerFailure failure;
  failure.exit = failed.exit;
  failure.ran_for = failed.ran_for;
  failure.ended_at = failed.at;
  failure.error = failed.error;
  return fmt::format(
      "local rank {} {}; the rendezvous at {} does not answer, which decides whether the job "
      "restarts: waiting for it for {} s",
      failed.local_rank, failed.hang.empty() ? describe(failure) : "hangs", service,
      std::max<std::int64_t>(std::chrono::ceil<std::chrono::seconds>(left).count(), 0));
}

}  // namespace

AgentSession::AgentSession(SessionSettings settings, SessionClock::time_point now)
    : settings_(std::move(settings)),
      pauses_(settings_.seed),
      link_(Waiting{now}),
      lease_({settings_.lease, settings_.join_timeout, settings_.lost_timeout}, now),
      own_id_(settings_.agent) {
  static_assert(std::variant_size_v<Link> == kEffects.size());
}

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
  if (submitted.round_began) place_.round_began = submitted.round_began;
  if (place_.is_fenced) {
    // The service counts this node as lost, or never knew of it: it is told of nothing but what
    // comes next.
    if (std::holds_alternative<proto::Leave>(message)) {
      place_.pending = std::move(message);
      place_.leave_at = context.now + kAnswerToLeave;
    } else if (std::holds_alternative<proto::Stopped>(message)) {
      place_.end_fence();
      begin_again(context);
    }
    return;
  }
  if (const auto* failed = std::get_if<proto::WorkerFailed>(&message);
      failed != nullptr && !is<Attached>() && lease_.heard_at())
    context.act(Tell{failure_line(*failed, settings_.service, lease_.gives_up_at() - context.now)});
  // A service that has just been told of this agent would wait for a lease, were it not told of
  // its end.
  const bool is_reached = lease_.heard_at() || is<Resuming>();
  if (place_.submit(message, is_reached ? context.now + kAnswerToLeave : context.now))
    send_numbered(std::move(message), context);
}

void AgentSession::send_numbered(proto::AgentMessage message, Context& context) {
  const proto::Numbered& numbered = outbox_.add(std::move(message));
  if (is<Attached>()) send(numbered, context);
}

void AgentSession::send(const proto::Numbered& numbered, Context& context) {
  proto::Numbered now = numbered;
  if (auto* join = std::get_if<proto::Join>(&now.message))
    join->age = context.now - lease_.began_at();
  // By the clock of the service that hears it: another one may have taken over since.
  if (place_.round_began) {
    const auto began = job_clock_.job_time_of_origin(*place_.round_began, context.now);
    if (auto* failed = std::get_if<proto::WorkerFailed>(&now.message)) failed->round_began = began;
    if (auto* stopped = std::get_if<proto::Stopped>(&now.message)) stopped->round_began = began;
  }
  context.act(SendToService{std::move(now)});
}

// ---- from the service ----

void AgentSession::take(ServiceSaid& said, Context& context) {
  switch (kEffects[link_.index()][said.message.index()]) {
    case MessageEffect::ignored:
      return;
    case MessageEffect::breaks:
      break_off(context);
      return;
    case MessageEffect::counts:
      std::visit(
          [&]<class Message>(Message& message) {
            constexpr bool never_counts =
                std::is_same_v<Message, proto::Prove> || std::is_same_v<Message, proto::Status>;
            if constexpr (!never_counts) hear(message, context);
          },
          said.message);
  }
}

/// That is no service which this agent can use. Another attempt may find the right one.
void AgentSession::break_off(Context& context) {
  refused_ = false;
  give_up_connection("it breaks the protocol of a rendezvous", context);
}

void AgentSession::give_up_connection(std::string trouble, Context& context) {
  silence_.fail(std::move(trouble));
  context.act(ResetConnection{});
  reconnect_later(context);
}

void AgentSession::hear(proto::Welcome& welcome, Context& context) {
  const bool can_be_kept = welcome.lease >= proto::kLeaseMin && welcome.lease <= proto::kLeaseMax &&
                           welcome.keep_alive_period > welcome.lease / 100 &&
                           welcome.keep_alive_period * KeepAlives::kUnansweredMax < welcome.lease;
  if (!can_be_kept) return break_off(context);
  const SessionClock::time_point asked_at = std::get<Resuming>(link_).since;
  lease_.hear(context.now);
  lease_.set_length(welcome.lease);
  direct_ = welcome.direct;
  in_agent_ = welcome.in_agent;
  restarts_ = welcome.restarts;
  const bool same_clock = job_clock_.clock() == welcome.clock;
  job_clock_.reset(welcome.clock);  // a service that was started again may count otherwise
  job_clock_.add({asked_at, welcome.job_time, welcome.job_time, context.now});
  if (silence_.end())
    context.act(Tell{fmt::format("the rendezvous at {} answers", settings_.service)});
  if (epoch_ && !welcome.resumed) {
    link_ = Unknown{};
    if (place_.is_fenced) return;
    if (place_.round) {
      fence("the rendezvous does not know this node any more", context);
    } else {
      begin_again(context);
    }
    return;
  }
  link_ = Attached{KeepAlives(welcome.keep_alive_period, context.now)};
  epoch_ = welcome.epoch;
  welcomed_as_ = own_id_;
  renew_lease(asked_at + lease_.length(), context);
  outbox_.forget_up_to(welcome.acknowledged);
  for (const proto::Numbered& message : outbox_.unacknowledged()) send(message, context);
  if (!same_clock) tell_again_when_round_began(context);
}

/// The service before this one knows of the round that has stopped here, by a clock of its own.
void AgentSession::tell_again_when_round_began(Context& context) {
  if (!place_.stopped || !place_.round_began) return;
  const auto& waiting = outbox_.unacknowledged();
  const bool is_told = std::none_of(waiting.begin(), waiting.end(), [](auto& one) {
    return std::holds_alternative<proto::Stopped>(one.message);
  });
  if (is_told) send_numbered(proto::Stopped{*place_.stopped, {}}, context);
}

void AgentSession::hear(proto::Alive& alive, Context& context) {
  lease_.hear(context.now);
  pauses_.reset();
  outbox_.forget_up_to(alive.acknowledged);
  const auto sent = std::get<Attached>(link_).keep_alives.answer(alive.number);
  if (!sent) return;
  renew_lease(*sent + lease_.length(), context);
  job_clock_.add({*sent, alive.received, alive.answered, context.now});
}

void AgentSession::hear(proto::Refused& refused, Context& context) {
  // After the first welcome it may be a stranger that has taken the port of a service which is
  // being started again.
  if (refused.why == proto::Refused::Why::limit || !welcomed_as_.empty()) {
    give_up_connection(refused.reason, context);
    return;
  }
  context.act(ResetConnection{});
  const std::string_view what =
      refused.why == proto::Refused::Why::certificate ? "cannot be used" : "refuses this node";
  finish(fmt::format("the rendezvous at {} {}: {}", settings_.service, what, refused.reason),
         context);
}

void AgentSession::hear(proto::MembershipMessage& message, Context& context) {
  lease_.hear(context.now);
  if (place_.is_fenced) return;
  if (const auto* stop = std::get_if<proto::Stop>(&message);
      stop != nullptr && !place_.round && place_.miss(stop->round)) {
    // It formed and was stopped while this agent was away, and the agent still waits.
    send_numbered(proto::Stopped{stop->round, {}}, context);
    if (place_.pending_join() != nullptr) send_numbered(*place_.pending, context);
  }
  if (!place_.is_new(message)) return;
  if (const auto* round = std::get_if<proto::Round>(&message)) {
    // It may have been on its way for long: under a lease that is over nothing is started.
    if (!lease_.end() || context.now >= *lease_.end()) {
      context.act(ResetConnection{});
      reconnect_later(context);
      return;
    }
    epoch_ = round->epoch;
  } else if (std::holds_alternative<Finished>(message)) {
    over_ = true;
    context.act(SendToService{proto::Bye{}});
  }
  place_.deliver(message);
  context.act(Deliver{std::move(message)});
}

// ---- fences ----

/// Kills the workers, without last words: they must not write what a newer round has begun anew.
void AgentSession::fence(const std::string& reason, Context& context) {
  place_.is_fenced = true;
  proto::Stop stop;
  stop.round = *place_.round;
  stop.reason = reason;
  stop.kill = true;
  context.act(Deliver{std::move(stop)});
}

/// Nothing is left here, and the old session is over: another one begins, with what the agent still
/// waits for.
void AgentSession::begin_again(Context& context) {
  // The job may have ended after the service gave this node up: then the outcome is the first that
  // the new session hears. Otherwise the answer to this is what the service knows.
  if (place_.is_final && !place_.pending && is<Unknown>())
    place_.pending = proto::Leave{
        0, fmt::format(
               "the rendezvous at {} does not know this node any more, and the job was ending; "
               "its outcome is unknown",
               settings_.service)};
  own_id_ = fmt::format("{}/{}", settings_.agent, ++sessions_);
  epoch_.reset();
  outbox_ = SessionOutbox();
  place_.begin_again();
  if (is<Attached>() || is<Resuming>()) {
    // That connection is of the old session.
    context.act(ResetConnection{});
    connect(context);
  } else if (is<Unknown>()) {
    resume(context);
  }
  if (place_.pending) send_numbered(*place_.pending, context);
}

// ---- ends ----

/// The job is over for this node, whatever becomes of it elsewhere.
void AgentSession::finish(std::string reason, Context& context) {
  over_ = true;
  Finished finished;
  finished.outcome = Finished::Outcome::failed;
  finished.reason = std::move(reason);
  if (place_.past) finished.restart_count = place_.past->restart_count;
  context.act(Deliver{std::move(finished)});
}

void AgentSession::leave_unanswered(Context& context) {
  const auto& leave = std::get<proto::Leave>(*place_.pending);
  if (place_.round && !place_.is_done) {
    place_.stop = place_.round;
    context.act(Deliver{Stop{*place_.round, "this node leaves", true, false, leave.signal != 0}});
    return;
  }
  over_ = true;
  context.act(ResetConnection{});
  context.act(Deliver{proto::outcome_of(leave)});
}

std::string AgentSession::why_given_up() const {
  const auto seconds = [](std::chrono::nanoseconds time) {
    return fmt::format("{} s", std::chrono::duration_cast<std::chrono::seconds>(time).count());
  };
  const std::string why = silence_.trouble().empty() ? "" : ": " + silence_.trouble();
  if (!lease_.heard_at()) {
    const std::string elsewhere =
        why_elsewhere_.empty() ? "" : "; it is not on this node: " + why_elsewhere_;
    return fmt::format("no rendezvous answered at {} for {}{}{}", settings_.service,
                       seconds(settings_.join_timeout), why, elsewhere);
  }
  const std::string node =
      !in_agent_ ? ""
                 : fmt::format(
                       "; the node that ran it is {}, and the job needs it (with rdzvd on "
                       "another machine it does not)",
                       refused_ ? "gone" : "gone or cut off");
  return fmt::format(
      "the rendezvous at {} has not answered for {}{}{}{}", settings_.service,
      seconds(lease_.lost_after()), why, node,
      place_.is_done ? "; this node's workers succeeded, the job's outcome is unknown" : "");
}

}  // namespace ddprun::rdzv
