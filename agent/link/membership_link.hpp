// The way between the agent and the membership core, wherever the core runs.
#pragma once

#include <chrono>
#include <functional>

#include <boost/asio/io_context.hpp>

#include "agent/link/deadline_timer.hpp"
#include "proto/membership_messages.hpp"
#include "rendezvous/membership/membership.hpp"

namespace ddprun::agent {

class MembershipLink {
 public:
  /// Called from the event loop only, never from within `send`.
  using Handler = std::function<void(proto::MembershipMessage)>;

  virtual ~MembershipLink() = default;

  /// What the core calls this agent.
  [[nodiscard]] virtual const proto::AgentId& own_id() const = 0;

  /// Whether the core takes AskRestart: one in an older rdzvd does not.
  [[nodiscard]] virtual bool can_ask_restart() const = 0;

  /// Messages arrive in this order and once each. Never fails: a link that has lost its connection
  /// sends later what the core has not taken.
  virtual void send(proto::AgentMessage message) = 0;
  /// Sends a WorkerFailed or Stopped. `round_began`: by this process's clock. Where there are other
  /// nodes, the link tells it so that they can compare it with theirs
  /// (rendezvous/client/job_clock.hpp).
  virtual void send(proto::AgentMessage message,
                    std::chrono::steady_clock::time_point round_began) = 0;

  /// Nothing of the job is left on this node, and the process ends now: as far as others can see
  /// that, they shall.
  virtual void end_in_order() {}
};

/// The membership core of a job of one node, in the agent's own process.
class LocalMembership final : public MembershipLink {
 public:
  LocalMembership(boost::asio::io_context& context, proto::JobSettings settings, Handler handler);

  [[nodiscard]] const proto::AgentId& own_id() const override { return own_id_; }
  [[nodiscard]] bool can_ask_restart() const override { return true; }
  void send(proto::AgentMessage message) override;
  void send(proto::AgentMessage message, rdzv::Clock::time_point) override {
    send(std::move(message));
  }

 private:
  void handle(const rdzv::MembershipEvent& event);

  boost::asio::io_context& context_;
  const Handler handler_;
  const proto::AgentId own_id_ = "local";
  rdzv::Membership core_;
  DeadlineTimer timer_;
};

}  // namespace ddprun::agent
