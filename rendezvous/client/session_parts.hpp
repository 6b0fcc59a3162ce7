// What an agent's session consists of beside the agent's place in the job: its messages on the way,
// its lease, its keep-alives, the pauses between attempts, and when people are told of a silence.
// Each is pure, with the clock of its caller.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "proto/session_messages.hpp"
#include "rendezvous/client/job_clock.hpp"

namespace ddprun::rdzv {

/// What the service has not acknowledged, by sequence number.
class SessionOutbox {
 public:
  const proto::Numbered& add(proto::AgentMessage message) {
    return unacknowledged_.emplace_back(proto::Numbered{next_seq_++, std::move(message)});
  }
  void forget_up_to(std::uint64_t acknowledged) {
    while (!unacknowledged_.empty() && unacknowledged_.front().seq <= acknowledged)
      unacknowledged_.pop_front();
  }
  [[nodiscard]] const std::deque<proto::Numbered>& unacknowledged() const {
    return unacknowledged_;
  }
  [[nodiscard]] std::uint64_t next_seq() const { return next_seq_; }
  /// The number of the last message that was acknowledged.
  [[nodiscard]] std::uint64_t acknowledged() const {
    return next_seq_ - 1 - unacknowledged_.size();
  }

 private:
  std::deque<proto::Numbered> unacknowledged_;
  std::uint64_t next_seq_ = 1;
};

/// How long workers may run, and the agent wait, since the service was heard last.
class SessionLease {
 public:
  struct Limits {
    std::chrono::nanoseconds lease;         ///< until the service gives one
    std::chrono::nanoseconds join_timeout;  ///< until the first answer
    std::chrono::nanoseconds lost_timeout;  ///< later; a lease at least
  };
  SessionLease(const Limits& limits, SessionClock::time_point now)
      : limits_(limits), began_at_(now), length_(limits.lease) {}

  void hear(SessionClock::time_point now) { heard_at_ = now; }
  void set_length(std::chrono::nanoseconds length) { length_ = length; }
  /// False: it lasts so long anyway.
  bool renew(SessionClock::time_point until) {
    if (end_ && *end_ >= until) return false;
    end_ = until;
    return true;
  }

  [[nodiscard]] SessionClock::time_point began_at() const { return began_at_; }
  [[nodiscard]] std::chrono::nanoseconds length() const { return length_; }
  /// The last message that counts; none: there was none yet.
  [[nodiscard]] std::optional<SessionClock::time_point> heard_at() const { return heard_at_; }
  /// None: no service has given one yet.
  [[nodiscard]] std::optional<SessionClock::time_point> end() const { return end_; }
  /// A service with many agents gives longer leases than they wish for, and is asked less often.
  [[nodiscard]] std::chrono::nanoseconds lost_after() const {
    return std::max(limits_.lost_timeout, length_);
  }
  [[nodiscard]] SessionClock::time_point gives_up_at() const {
    return heard_at_ ? *heard_at_ + lost_after() : began_at_ + limits_.join_timeout;
  }

 private:
  Limits limits_;
  SessionClock::time_point began_at_;
  std::chrono::nanoseconds length_;
  std::optional<SessionClock::time_point> heard_at_;
  std::optional<SessionClock::time_point> end_;
};

/// The questions of one connection that are not answered yet.
class KeepAlives {
 public:
  /// So many unanswered ones: the connection is dead.
  static constexpr int kUnansweredMax = 2;

  /// The first one is due at once.
  KeepAlives(std::chrono::nanoseconds period, SessionClock::time_point now)
      : period_(period), due_(now) {}

  [[nodiscard]] SessionClock::time_point due() const { return due_; }
  void ask(std::uint64_t number, SessionClock::time_point now) {
    asked_.emplace_back(number, now);
    due_ = now + period_;
  }
  /// When that one was sent, and no older one counts any more. None: it was not.
  std::optional<SessionClock::time_point> answer(std::uint64_t number);
  [[nodiscard]] bool is_dead(SessionClock::time_point heard_at,
                             SessionClock::time_point now) const {
    return asked_.size() > kUnansweredMax && now >= heard_at + period_ * kUnansweredMax;
  }

 private:
  std::chrono::nanoseconds period_;
  SessionClock::time_point due_;
  std::deque<std::pair<std::uint64_t, SessionClock::time_point>> asked_;  // by number
};

/// A random part of a bound that doubles: many agents lose a service at one time.
class AttemptPauses {
 public:
  explicit AttemptPauses(std::uint32_t seed) : random_(seed) {}

  /// The next attempt follows at once.
  void reset() { bound_ = std::chrono::nanoseconds(0); }
  /// Before the next attempt; the bound grows to `longest`.
  std::chrono::nanoseconds next(std::chrono::nanoseconds longest);

 private:
  std::minstd_rand random_;
  std::chrono::nanoseconds bound_{0};
};

/// When people are told that the service does not answer: once for each reason.
class SilenceReports {
 public:
  /// An attempt or a connection has failed.
  void fail(std::string trouble) { trouble_ = std::move(trouble); }
  /// A connection ended that was in use.
  void cut(SessionClock::time_point now) { cut_at_ = now; }
  /// Why the last attempt failed; empty: it did not.
  [[nodiscard]] const std::string& trouble() const { return trouble_; }
  /// None: there is nothing to tell.
  [[nodiscard]] std::optional<SessionClock::time_point> due(
      SessionClock::time_point heard_at) const;
  void note_told(SessionClock::time_point now) {
    told_ = trouble_;
    told_at_ = now;
  }
  /// The service answers. Returns whether people were told that it did not.
  bool end() {
    trouble_.clear();
    return !std::exchange(told_, "").empty();
  }

 private:
  std::string trouble_;
  std::string told_;  // empty: nothing
  SessionClock::time_point told_at_{};
  SessionClock::time_point cut_at_{};
};

}  // namespace ddprun::rdzv
