// The membership core of a job of several nodes, which the rendezvous service has: an AgentSession
// over connections of this process.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "agent/link/membership_link.hpp"
#include "rendezvous/client/agent_session.hpp"
#include "rendezvous/client/service_connection.hpp"

namespace ddprun::agent {

class RemoteMembership final : public MembershipLink {
 public:
  struct Events {
    Handler message;                                      ///< from the membership core
    std::function<void(const std::string& line)> notice;  ///< for people
    /// Workers may run until then, by CLOCK_BOOTTIME.
    std::function<void(rdzv::SessionClock::time_point until)> lease_moved;
    /// A connection is open, nothing said on it yet; or there is none any more.
    std::function<void()> connected;
    std::function<void()> disconnected;
    /// By a service, each time that one has answered the session's first message.
    std::function<void(const proto::Welcome&)> welcomed;
  };

  RemoteMembership(boost::asio::io_context& context, rdzv::SessionSettings session,
                   rdzv::ServicePlace place, Events events);

  /// Connects. Errors: the system's, where there is no descriptor for its timer.
  [[nodiscard]] ErrorCode start();

  [[nodiscard]] const proto::AgentId& own_id() const override { return session_.own_id(); }
  [[nodiscard]] bool can_ask_restart() const override { return session_.can_ask_restart(); }
  void send(proto::AgentMessage message) override;
  void send(proto::AgentMessage message,
            std::chrono::steady_clock::time_point round_began) override;
  /// Nothing is heard or sent any more, and no event comes of what was under way.
  void stop();
  /// As ServiceConnection's.
  void cut() { connection_.cut(); }
  void heal() { connection_.heal(); }
  [[nodiscard]] const rdzv::ServiceConnection& connection() const { return connection_; }

 private:
  void on(rdzv::SessionEvent event);
  void lose_connection(bool refused, const std::string& reason);
  void obey(rdzv::Connect& action);
  void obey(rdzv::SendToService& action);
  void obey(rdzv::ResetConnection& action);
  void obey(rdzv::Deliver& action);
  void obey(rdzv::LeaseMoved& action);
  void obey(rdzv::Tell& action);
  void follow_deadline();
  void await_timer();

  boost::asio::io_context& context_;
  const Events events_;
  rdzv::AgentSession session_;
  rdzv::ServiceConnection connection_;
  std::deque<rdzv::SessionEvent> pending_;
  boost::asio::posix::stream_descriptor timer_;
  std::optional<rdzv::SessionClock::time_point> deadline_;  // for which the timer is set
  bool stopped_ = false;
};

}  // namespace ddprun::agent
