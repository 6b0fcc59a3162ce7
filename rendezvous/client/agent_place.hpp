// An agent's place in its job, as far as the messages tell that it has given and got. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "proto/membership_messages.hpp"
#include "rendezvous/client/job_clock.hpp"

namespace ddprun::rdzv {

struct AgentPlace {
  std::optional<proto::AgentMessage> pending;        ///< Join or Leave that waits for its answer
  std::optional<SessionClock::time_point> leave_at;  ///< without the service's answer
  std::optional<proto::PastRound> past;              ///< the last round that was delivered
  std::optional<proto::RoundNumber> round;           ///< of which something may be left on the node
  std::optional<proto::RoundNumber> stopped;         ///< the round before, once that was told
  std::optional<SessionClock::time_point> round_began;  ///< it or `round`, by what was submitted
  int nodes = 1;                                        ///< of the last round
  std::optional<proto::RoundNumber> stop;               ///< the newest that was delivered
  std::uint64_t check = 0;                              ///< of the newest that was delivered
  bool is_final = false;                                ///< no other round follows for this node
  bool is_done = false;                                 ///< its workers have succeeded
  bool is_fenced = false;                               ///< its workers are being killed

  /// Null: none waits for its answer.
  [[nodiscard]] proto::Join* pending_join();
  [[nodiscard]] const proto::Leave* pending_leave() const;

  /// The agent submits a message. False: it is not to be sent. A Leave waits for its answer until
  /// `leave_by`.
  [[nodiscard]] bool submit(proto::AgentMessage& message, SessionClock::time_point leave_by);
  /// The service says again what may not have arrived.
  [[nodiscard]] bool is_new(const proto::MembershipMessage& message) const;
  void deliver(const proto::MembershipMessage& message);
  /// A round formed and was stopped while this agent was away: nothing of it is here. False: that
  /// is known already.
  [[nodiscard]] bool miss(proto::RoundNumber missed);
  /// Nothing is left of the workers that were being killed.
  void end_fence();
  /// Another session begins: its service may give all numbers again.
  void begin_again();

  /// Workers run, or may leave something behind. Those that have succeeded write nothing any more.
  [[nodiscard]] bool must_fence() const { return round && !is_done && !is_fenced; }
  /// The service does not answer a Leave: this node ends its part in the job by itself. One that is
  /// attached and has no workers may have to wait for other nodes.
  [[nodiscard]] bool leaves_unanswered(bool is_attached) const;
};

}  // namespace ddprun::rdzv
