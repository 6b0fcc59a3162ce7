// Attempts to connect, keep-alives, the lease, and what people are told meanwhile.
#include <algorithm>

#include <fmt/format.h>

#include "proto/failure_text.hpp"
#include "rendezvous/client/agent_session.hpp"

namespace ddprun::rdzv {

using namespace std::chrono_literals;

namespace {

constexpr std::chrono::nanoseconds kFirstPause = 20ms;
constexpr std::chrono::nanoseconds kLongestPause = 1s;
/// While workers wait for the lease: for each node of the job, because all of them ask, and at
/// least.
constexpr std::chrono::nanoseconds kLongestPausePerNode = 1ms;
constexpr std::chrono::nanoseconds kLongestPauseWithWorkers = 100ms;
/// An attempt that takes longer has failed.
constexpr std::chrono::nanoseconds kAttemptTime = 5s;
/// A shorter silence is not worth a line.
constexpr std::chrono::nanoseconds kTellAfter = 2s;
/// Between two lines that give different reasons.
constexpr std::chrono::nanoseconds kTellEvery = 10s;

}  // namespace

// ---- attempts ----

void AgentSession::connect(Context& context) {
  link_ = Link::connecting;
  attempt_at_ = context.now;
  context.act(Connect{});
}

/// After a random part of a pause that doubles: many agents lose a service at one time.
void AgentSession::reconnect_later(Context& context) {
  link_ = Link::waiting;
  std::uniform_int_distribution<std::int64_t> part(0, pause_.count());
  next_attempt_at_ = context.now + std::chrono::nanoseconds(part(random_));
  // Each attempt that finds nothing there renews the lease, so they come more often than it ends.
  auto longest = std::min(kLongestPause, lease_ / 5);
  // One that leads instead may itself be lost soon, and the lease be over before the next one
  // leads.
  if (must_fence())
    longest = std::min(longest, std::max(nodes_ * kLongestPausePerNode, kLongestPauseWithWorkers));
  pause_ = std::max(std::min(pause_ * 2, longest), std::min(kFirstPause, longest));
}

void AgentSession::take(Connected& connected, Context& context) {
  if (link_ != Link::connecting) return;
  path_ = std::move(connected.path);
  resume(context);
}

void AgentSession::resume(Context& context) {
  link_ = Link::resuming;
  attempt_at_ = context.now;
  proto::Resume resume;
  resume.agent = own_id_;
  resume.epoch = epoch_;
  resume.round = round_;
  resume.next_seq = next_seq_;
  resume.acknowledged = next_seq_ - 1 - unacknowledged_.size();
  resume.lease = lease_;
  resume.age = context.now - began_at_;
  resume.path = path_;
  if (welcomed_as_ != own_id_) resume.replaces = welcomed_as_;
  context.act(SendToService{std::move(resume)});
}

void AgentSession::take(ConnectionFailed& failed, Context& context) {
  if (link_ == Link::waiting) return;
  if (link_ == Link::attached) cut_at_ = context.now;
  trouble_ = std::move(failed.reason);
  why_elsewhere_ = std::move(failed.why_elsewhere);
  refused_ = failed.refused && direct_ && link_ == Link::connecting;
  // A service that is not there starts no workers elsewhere; one that is started later waits until
  // our lease is over.
  if (refused_ && lease_end_ && heard_at_ && attempt_at_ < gives_up_at())
    renew_lease(std::max(*lease_end_, attempt_at_ + lease_), context);
  reconnect_later(context);
}

// ---- time ----

void AgentSession::renew_lease(SessionClock::time_point until, Context& context) {
  if (lease_end_ && *lease_end_ >= until) return;
  lease_end_ = until;
  context.act(LeaseMoved{until});
}

/// A service with many agents gives longer leases than they wish for, and is asked less often.
std::chrono::nanoseconds AgentSession::lost_after() const {
  return std::max(settings_.lost_timeout, lease_);
}

SessionClock::time_point AgentSession::gives_up_at() const {
  return heard_at_ ? *heard_at_ + lost_after() : began_at_ + settings_.join_timeout;
}

/// Workers run, or may leave something behind. Those that have succeeded write nothing any more.
bool AgentSession::must_fence() const { return round_ && !done_ && !fenced_; }

void AgentSession::take(SessionTimePassed&, Context& context) {
  if (context.now >= gives_up_at()) {
    context.act(ResetConnection{});
    give_up(context);
    return;
  }
  if (leaves_unanswered() && context.now >= *leave_at_) {
    leave_unanswered(context);
    if (over_) return;
  }
  if (must_fence() && context.now >= *lease_end_)
    fence(fmt::format("the rendezvous at {} has not answered for {:.0f} s", settings_.service,
                      std::chrono::duration<double>(lease_).count()),
          context);
  if (link_ == Link::attached && context.now >= keep_alive_at_) {
    asked_.emplace_back(++keep_alives_, context.now);
    context.act(SendToService{proto::KeepAlive{keep_alives_, context.now.time_since_epoch()}});
    keep_alive_at_ = context.now + period_;
  }
  const bool too_long = (link_ == Link::connecting || link_ == Link::resuming) &&
                        context.now >= attempt_at_ + kAttemptTime;
  const bool dead = link_ == Link::attached && asked_.size() > kUnansweredMax &&
                    context.now >= *heard_at_ + period_ * kUnansweredMax;
  if (too_long || dead) {
    trouble_ = "no answer";
    refused_ = false;
    context.act(ResetConnection{});
    reconnect_later(context);
  }
  if (link_ == Link::waiting && context.now >= next_attempt_at_) connect(context);
  tell_of_silence(context);
}

std::optional<SessionClock::time_point> AgentSession::deadline() const {
  if (over_) return std::nullopt;
  SessionClock::time_point next = gives_up_at();
  if (must_fence()) next = std::min(next, *lease_end_);
  if (leaves_unanswered()) next = std::min(next, *leave_at_);
  if (link_ == Link::waiting) next = std::min(next, next_attempt_at_);
  if (link_ == Link::connecting || link_ == Link::resuming)
    next = std::min(next, attempt_at_ + kAttemptTime);
  if (link_ == Link::attached) next = std::min(next, keep_alive_at_);
  if (const auto tell_at = silence_told_at()) next = std::min(next, *tell_at);
  return next;
}

// ---- what people are told ----

/// None: there is nothing to tell.
std::optional<SessionClock::time_point> AgentSession::silence_told_at() const {
  const bool is_silent = link_ != Link::attached && link_ != Link::unknown;
  if (!is_silent || trouble_.empty() || trouble_ == told_trouble_) return std::nullopt;
  return std::max(std::max(heard_at_.value_or(began_at_), cut_at_) + kTellAfter,
                  told_at_ + kTellEvery);
}

void AgentSession::tell_of_silence(Context& context) {
  const auto tell_at = silence_told_at();
  if (!tell_at || context.now < *tell_at) return;
  told_trouble_ = trouble_;
  told_at_ = context.now;
  std::string line =
      fmt::format("the rendezvous at {} does not answer ({})", settings_.service, told_trouble_);
  const auto in = [&](SessionClock::time_point when) {
    return std::max<std::int64_t>(
        std::chrono::ceil<std::chrono::seconds>(when - context.now).count(), 0);
  };
  if (!must_fence()) {
    line += fmt::format("; trying for {} s", in(gives_up_at()));
  } else {
    // One that is not there starts no others; one that does not answer may.
    line += refused_ ? fmt::format("; the workers go on, and the job ends in {} s if it stays so",
                                   in(gives_up_at()))
                     : fmt::format("; the workers go on, and are killed in {} s if it stays so",
                                   in(std::min(*lease_end_, gives_up_at())));
  }
  context.act(Tell{std::move(line)});
}

/// It is not known now whether the job goes on.
void AgentSession::tell_of_failure(const proto::WorkerFailed& failed, Context& context) {
  if (link_ == Link::attached || !heard_at_) return;
  const auto left = std::chrono::ceil<std::chrono::seconds>(gives_up_at() - context.now);
  proto::WorkerFailure failure;
  failure.exit = failed.exit;
  failure.ran_for = failed.ran_for;
  failure.ended_at = failed.at;
  failure.error = failed.error;
  context.act(Tell{fmt::format(
      "local rank {} {}; the rendezvous at {} does not answer, which decides whether the job "
      "restarts: waiting for it for {} s",
      failed.local_rank, failed.hang.empty() ? describe(failure) : "hangs", settings_.service,
      std::max<std::int64_t>(left.count(), 0))});
}

void AgentSession::tell_of_return(Context& context) {
  trouble_.clear();
  if (std::exchange(told_trouble_, "").empty()) return;
  context.act(Tell{fmt::format("the rendezvous at {} answers", settings_.service)});
}

}  // namespace ddprun::rdzv
