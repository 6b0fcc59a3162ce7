// The way between the agent and the membership core, wherever the core runs.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "proto/membership_messages.hpp"

namespace ddprun::agent {

class MembershipLink {
 public:
  /// Called from the event loop only, never from within `send`.
  using Handler = std::function<void(proto::MembershipMessage)>;

  virtual ~MembershipLink() = default;

  /// What the core calls this agent.
  [[nodiscard]] virtual const proto::AgentId& own_id() const = 0;

  /// Messages arrive in this order and once each. Never fails: a link that has lost its connection
  /// sends later what the core has not taken.
  virtual void send(proto::AgentMessage message) = 0;

  /// Nothing of the job is left on this node, and the process ends now: as far as others can see
  /// that, they shall.
  virtual void end_in_order() {}

  /// An instant of this process's clock from which others are counted, so that other nodes can
  /// compare these with theirs (rendezvous/client/job_clock.hpp). None: there are no other nodes.
  [[nodiscard]] virtual std::optional<proto::JobTime> job_time_of_origin(
      std::chrono::steady_clock::time_point origin) const = 0;
};

}  // namespace ddprun::agent
