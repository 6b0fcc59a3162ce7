// The membership core of a job of one node, in the agent's own process.
#pragma once

#include <boost/asio/io_context.hpp>

#include "agent/control/deadline_timer.hpp"
#include "agent/control/membership_link.hpp"
#include "rendezvous/membership/membership.hpp"

namespace ddprun::agent {

class LocalMembership final : public MembershipLink {
 public:
  LocalMembership(boost::asio::io_context& context, proto::JobSettings settings, Handler handler);

  [[nodiscard]] const proto::AgentId& own_id() const override { return own_id_; }
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
