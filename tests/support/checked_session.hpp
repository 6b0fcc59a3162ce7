// An agent's session whose every action is checked: it sends nothing that its state forbids, and
// it ends within its time-outs, whatever it hears. Aborts where a promise is broken.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>

#include "base/assert.hpp"
#include "proto/message_limits.hpp"
#include "rendezvous/client/agent_session.hpp"

namespace ddprun::test {

class CheckedSession {
 public:
  using Time = rdzv::SessionClock::time_point;

  CheckedSession() { pass(std::chrono::nanoseconds(0)); }

  void take(rdzv::SessionEvent event) {
    if (std::holds_alternative<rdzv::Connected>(event) && is_connecting_) {
      is_connecting_ = false;
      is_open_ = true;
    } else if (std::holds_alternative<rdzv::ConnectionFailed>(event)) {
      lose_connection();
    } else if (const auto* said = std::get_if<rdzv::ServiceSaid>(&event)) {
      hear(said->message);
    }
    const bool was_over = session_.is_over();
    const auto actions = session_.on(std::move(event), now_);
    DDPRUN_ASSERT(!was_over || actions.empty(), "nothing follows the outcome");
    for (const rdzv::SessionAction& action : actions) std::visit(*this, action);
    DDPRUN_ASSERT(session_.is_over() == outcome_, "a session is over when it gives its outcome");
    DDPRUN_ASSERT(session_.deadline().has_value() != session_.is_over(), "a wait has a deadline");
  }

  void pass(std::chrono::nanoseconds time) {
    const Time end = now_ + time;
    int turns_at_once = 0;
    while (session_.deadline() && *session_.deadline() <= end) {
      turns_at_once = *session_.deadline() > now_ ? 0 : turns_at_once + 1;
      DDPRUN_ASSERT(turns_at_once < 10, "a deadline that has passed is followed by a later one");
      now_ = std::max(now_, *session_.deadline());
      take(rdzv::SessionTimePassed{});
    }
    now_ = end;
    DDPRUN_ASSERT(session_.is_over() || now_ < ends_at(), "a session ends within its time-outs");
  }

  /// Nothing comes any more.
  void fall_silent() { pass(std::max(ends_at() - now_, std::chrono::nanoseconds(0))); }

  void operator()(const rdzv::Connect&) {
    DDPRUN_ASSERT(!is_connecting_ && !is_open_, "one connection at a time");
    is_connecting_ = true;
  }
  void operator()(const rdzv::ResetConnection&) { lose_connection(); }
  void operator()(const rdzv::SendToService& send) {
    DDPRUN_ASSERT(is_open_, "messages go through an open connection");
    if (const auto* resume = std::get_if<proto::Resume>(&send.message)) {
      DDPRUN_ASSERT(!resumed_, "one session on a connection");
      resumed_ = *resume;
      return;
    }
    DDPRUN_ASSERT(is_attached_, "before welcome only resume is sent");
  }
  void operator()(const rdzv::Deliver& deliver) {
    DDPRUN_ASSERT(!outcome_, "the outcome is the last message");
    outcome_ = std::holds_alternative<proto::Finished>(deliver.message);
    if (!std::holds_alternative<proto::Round>(deliver.message)) return;
    DDPRUN_ASSERT(is_attached_ && lease_end_ && now_ < *lease_end_, "a round begins under a lease");
  }
  void operator()(const rdzv::LeaseMoved& moved) {
    DDPRUN_ASSERT(!lease_end_ || moved.until > *lease_end_, "a lease only grows");
    DDPRUN_ASSERT(moved.until <= now_ + proto::kLeaseMax, "a lease is bounded");
    lease_end_ = moved.until;
  }
  void operator()(const rdzv::Tell& tell) {
    DDPRUN_ASSERT(!tell.line.empty(), "a line has a text");
  }

 private:
  /// Only these are signs of life.
  void hear(const proto::ServiceMessage& message) {
    if (session_.is_over()) return;
    if (const auto* welcome = std::get_if<proto::Welcome>(&message)) {
      const bool can_be_kept = welcome->lease >= proto::kLeaseMin &&
                               welcome->lease <= proto::kLeaseMax &&
                               welcome->keep_alive_period > welcome->lease / 100 &&
                               2 * welcome->keep_alive_period < welcome->lease;
      if (!resumed_ || is_attached_ || !can_be_kept) return;
      heard_at_ = now_;
      lease_ = welcome->lease;
      is_attached_ = !resumed_->epoch || welcome->resumed;
      if (!is_attached_) resumed_.reset();
    } else if (is_attached_ && (std::holds_alternative<proto::Alive>(message) ||
                                std::holds_alternative<proto::MembershipMessage>(message))) {
      heard_at_ = now_;
    }
  }
  void lose_connection() {
    is_connecting_ = is_open_ = is_attached_ = false;
    resumed_.reset();
  }
  [[nodiscard]] Time ends_at() const {
    return heard_at_ ? *heard_at_ + std::max(settings_.lost_timeout, lease_)
                     : began_at_ + settings_.join_timeout;
  }

  const Time began_at_{std::chrono::hours(1)};
  Time now_ = began_at_;
  const rdzv::SessionSettings settings_{.agent = "a",
                                        .service = "node1:29400",
                                        .lease = std::chrono::seconds(3),
                                        .join_timeout = std::chrono::seconds(20),
                                        .lost_timeout = std::chrono::seconds(10)};
  rdzv::AgentSession session_{settings_, now_};
  bool is_connecting_ = false;
  bool is_open_ = false;
  bool is_attached_ = false;
  bool outcome_ = false;
  std::optional<proto::Resume> resumed_;  // that is not answered, or by which it is attached
  std::optional<Time> heard_at_;
  std::optional<Time> lease_end_;
  std::chrono::nanoseconds lease_{0};
};

}  // namespace ddprun::test
