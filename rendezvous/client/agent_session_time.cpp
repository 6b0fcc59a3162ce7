// Attempts to connect, keep-alives, the lease, and what people are told meanwhile.
#include <algorithm>

#include <fmt/format.h>

#include "rendezvous/client/agent_session.hpp"

namespace ddprun::rdzv {

using namespace std::chrono_literals;

namespace {

constexpr std::chrono::nanoseconds kLongestPause = 1s;
/// While workers wait for the lease: for each node of the job, because all of them ask, and at
/// least.
constexpr std::chrono::nanoseconds kLongestPausePerNode = 1ms;
constexpr std::chrono::nanoseconds kLongestPauseWithWorkers = 100ms;
/// An attempt that takes longer has failed.
constexpr std::chrono::nanoseconds kAttemptTime = 5s;

}  // namespace

// ---- attempts ----

void AgentSession::connect(Context& context) {
  link_ = Connecting{context.now};
  context.act(Connect{});
}

void AgentSession::reconnect_later(Context& context) {
  // Each attempt that finds nothing there renews the lease, so they come more often than it ends.
  auto longest = std::min(kLongestPause, lease_.length() / 5);
  // One that leads instead may itself be lost soon, and the lease be over before the next one
  // leads.
  if (place_.must_fence())
    longest =
        std::min(longest, std::max(place_.nodes * kLongestPausePerNode, kLongestPauseWithWorkers));
  link_ = Waiting{context.now + pauses_.next(longest)};
}

void AgentSession::take(Connected& connected, Context& context) {
  if (!is<Connecting>()) return;
  path_ = std::move(connected.path);
  resume(context);
}

void AgentSession::resume(Context& context) {
  link_ = Resuming{context.now};
  proto::Resume resume;
  resume.agent = own_id_;
  resume.epoch = epoch_;
  resume.round = place_.round;
  resume.next_seq = outbox_.next_seq();
  resume.acknowledged = outbox_.acknowledged();
  resume.lease = lease_.length();
  resume.age = context.now - lease_.began_at();
  resume.path = path_;
  if (welcomed_as_ != own_id_) resume.replaces = welcomed_as_;
  context.act(SendToService{std::move(resume)});
}

void AgentSession::take(ConnectionFailed& failed, Context& context) {
  if (is<Waiting>()) return;
  if (is<Attached>()) silence_.cut(context.now);
  silence_.fail(std::move(failed.reason));
  why_elsewhere_ = std::move(failed.why_elsewhere);
  const auto* const connecting = std::get_if<Connecting>(&link_);
  refused_ = failed.refused && direct_ && connecting != nullptr;
  // A service that is not there starts no workers elsewhere; one that is started later waits until
  // our lease is over.
  if (refused_ && lease_.end() && lease_.heard_at() && connecting->since < lease_.gives_up_at())
    renew_lease(std::max(*lease_.end(), connecting->since + lease_.length()), context);
  reconnect_later(context);
}

// ---- time ----

void AgentSession::renew_lease(SessionClock::time_point until, Context& context) {
  if (lease_.renew(until)) context.act(LeaseMoved{until});
}

std::optional<SessionClock::time_point> AgentSession::attempt_ends_at() const {
  if (const auto* connecting = std::get_if<Connecting>(&link_))
    return connecting->since + kAttemptTime;
  if (const auto* resuming = std::get_if<Resuming>(&link_)) return resuming->since + kAttemptTime;
  return std::nullopt;
}

void AgentSession::take(SessionTimePassed&, Context& context) {
  if (context.now >= lease_.gives_up_at()) {
    context.act(ResetConnection{});
    finish(why_given_up(), context);
    return;
  }
  if (place_.leaves_unanswered(is<Attached>()) && context.now >= *place_.leave_at) {
    leave_unanswered(context);
    if (over_) return;
  }
  if (place_.must_fence() && context.now >= *lease_.end())
    fence(fmt::format("the rendezvous at {} has not answered for {:.0f} s", settings_.service,
                      std::chrono::duration<double>(lease_.length()).count()),
          context);
  auto* const attached = std::get_if<Attached>(&link_);
  if (attached != nullptr && context.now >= attached->keep_alives.due()) {
    attached->keep_alives.ask(++keep_alives_, context.now);
    context.act(SendToService{proto::KeepAlive{keep_alives_, context.now.time_since_epoch()}});
  }
  const auto attempt_end = attempt_ends_at();
  const bool too_long = attempt_end && context.now >= *attempt_end;
  const bool dead =
      attached != nullptr && attached->keep_alives.is_dead(*lease_.heard_at(), context.now);
  if (too_long || dead) {
    refused_ = false;
    give_up_connection("no answer", context);
  }
  if (const auto* waiting = std::get_if<Waiting>(&link_);
      waiting != nullptr && context.now >= waiting->until)
    connect(context);
  tell_of_silence(context);
}

std::optional<SessionClock::time_point> AgentSession::deadline() const {
  if (over_) return std::nullopt;
  SessionClock::time_point next = lease_.gives_up_at();
  if (place_.must_fence()) next = std::min(next, *lease_.end());
  if (place_.leaves_unanswered(is<Attached>())) next = std::min(next, *place_.leave_at);
  if (const auto* waiting = std::get_if<Waiting>(&link_)) next = std::min(next, waiting->until);
  if (const auto attempt_end = attempt_ends_at()) next = std::min(next, *attempt_end);
  if (const auto* attached = std::get_if<Attached>(&link_))
    next = std::min(next, attached->keep_alives.due());
  if (const auto tell_at = silence_told_at()) next = std::min(next, *tell_at);
  return next;
}

// ---- what people are told ----

std::optional<SessionClock::time_point> AgentSession::silence_told_at() const {
  if (is<Attached>() || is<Unknown>()) return std::nullopt;
  return silence_.due(lease_.heard_at().value_or(lease_.began_at()));
}

void AgentSession::tell_of_silence(Context& context) {
  const auto tell_at = silence_told_at();
  if (!tell_at || context.now < *tell_at) return;
  silence_.note_told(context.now);
  std::string line = fmt::format("the rendezvous at {} does not answer ({})", settings_.service,
                                 silence_.trouble());
  const auto in = [&](SessionClock::time_point when) {
    return std::max<std::int64_t>(
        std::chrono::ceil<std::chrono::seconds>(when - context.now).count(), 0);
  };
  if (!place_.must_fence()) {
    line += fmt::format("; trying for {} s", in(lease_.gives_up_at()));
  } else {
    // One that is not there starts no others; one that does not answer may.
    line += refused_ ? fmt::format("; the workers go on, and the job ends in {} s if it stays so",
                                   in(lease_.gives_up_at()))
                     : fmt::format("; the workers go on, and are killed in {} s if it stays so",
                                   in(std::min(*lease_.end(), lease_.gives_up_at())));
  }
  context.act(Tell{std::move(line)});
}

}  // namespace ddprun::rdzv
