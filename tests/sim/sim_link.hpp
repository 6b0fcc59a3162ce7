// An agent's end of its connection to the rendezvous service, in the simulation: the real session
// and real bytes.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "proto/control_channel.hpp"
#include "rendezvous/client/agent_session.hpp"
#include "rendezvous/service/service_core.hpp"
#include "tests/sim/world.hpp"

namespace ddprun::sim {

class SimService;

/// Which way a cut network loses what is sent. Connections stay, and what was sent arrives later.
enum class Cut { none, up, down, both };

/// An agent's end: its session, and the connection that it has.
class SimLink {
 public:
  /// `lease_over`: a second ago, by the page that the warden reads.
  SimLink(World& world, HostClock clock, SimService& service, bool hiccups,
          rdzv::SessionSettings settings, std::function<void(proto::MembershipMessage)> deliver,
          std::function<void()> lease_over);

  void submit(proto::AgentMessage message) { on(rdzv::Submitted{std::move(message)}); }
  /// The agent is gone. Its warden ends the connection, unless the whole machine is gone.
  void end(bool silently);
  void set_cut(Cut cut) { cut_ = cut; }
  /// What is sent takes so much longer, at most.
  void set_delay(Duration most) { delay_ = most; }
  /// How long what is sent now is on its way.
  [[nodiscard]] Duration draw_delay() const;
  /// The agent is stopped (SIGSTOP), and goes on: the connection stays.
  void freeze() { frozen_ = true; }
  void thaw();
  /// The host sleeps, and wakes up: its clock goes on meanwhile, and its warden looks first.
  void suspend() { suspended_ = true; }
  void resume();
  [[nodiscard]] const HostClock& clock() const { return clock_; }
  [[nodiscard]] bool is_cut(bool up) const;
  [[nodiscard]] const rdzv::AgentSession& session() const { return session_; }

  // For the service's end of the connection.
  void connection_failed(rdzv::ConnectionId id, bool refused);
  void connected(rdzv::ConnectionId id);
  void arrived(rdzv::ConnectionId id, const std::string& bytes);

 private:
  void on(rdzv::SessionEvent event);
  void go_on();
  void obey(rdzv::Connect& action);
  void obey(rdzv::SendToService& action);
  void obey(rdzv::ResetConnection& action);
  void obey(rdzv::Deliver& action);
  void obey(rdzv::LeaseMoved& action);
  void obey(rdzv::Tell& action) { world_.note(session_.own_id() + ": " + action.line); }
  void send_output();
  void follow_deadline();

  World& world_;
  const HostClock clock_;
  SimService& service_;
  const bool hiccups_;
  std::function<void(proto::MembershipMessage)> deliver_;
  std::function<void()> lease_over_;
  rdzv::AgentSession session_;
  std::deque<rdzv::SessionEvent> events_;
  std::optional<proto::ControlChannel> channel_;
  rdzv::ConnectionId connection_ = 0;  // the newest attempt
  std::optional<Clock::time_point> deadline_;
  Cut cut_ = Cut::none;
  Duration delay_{0};
  bool alive_ = true;
  bool frozen_ = false;
  bool suspended_ = false;
  bool warden_is_due_ = false;  // when the host wakes up
  bool busy_ = false;           // with events_
};

}  // namespace ddprun::sim
