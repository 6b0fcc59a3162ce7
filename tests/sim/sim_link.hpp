// An agent's end of its connection to the rendezvous service, in the simulation: the real session
// and real bytes.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "proto/control_channel.hpp"
#include "rendezvous/client/agent_session.hpp"
#include "rendezvous/client/service_hosts.hpp"
#include "rendezvous/service/service_core.hpp"
#include "tests/sim/sim_channel.hpp"
#include "tests/sim/world.hpp"

namespace ddprun::sim {

class SimProcess;

/// Which way a cut network loses what is sent. Connections stay, and what was sent arrives later.
enum class Cut { none, up, down, both };

/// What new connections meet on their way.
enum class Way {
  open,
  rejected,  ///< by a firewall, with a message of ICMP
  refused,   ///< nothing listens at the forwarder's port
};

/// An agent's end: its session, and the connection that it has.
class SimLink {
 public:
  /// `places`: where the service may be. `lease_over`: a second ago, by the page that the warden
  /// reads.
  SimLink(World& world, HostClock clock, std::vector<SimProcess*> places, LinkPlan plan,
          rdzv::SessionSettings settings, std::function<void(proto::MembershipMessage)> deliver,
          std::function<void()> lease_over);

  void submit(proto::AgentMessage message,
              std::optional<Clock::time_point> round_began = std::nullopt) {
    on(rdzv::Submitted{std::move(message), round_began});
  }
  /// The agent is gone. Its warden ends the connection, unless the whole machine is gone.
  void end(bool silently);
  void set_cut(Cut cut) { cut_ = cut; }
  void set_way(Way way) { way_ = way; }
  [[nodiscard]] Way way() const { return way_; }
  /// No hiccups any more.
  void calm_down() { is_calm_ = true; }
  /// What is sent takes so much longer, at most.
  void set_delay(Duration most) { delay_ = most; }
  /// Between one thing that it reads and the next.
  void set_reading_pause(Duration pause) { reading_pause_ = pause; }
  [[nodiscard]] Duration reading_pause() const { return reading_pause_; }
  /// How long what is sent now is on its way.
  [[nodiscard]] Duration draw_delay() const;
  /// The agent is stopped (SIGSTOP), and goes on: the connection stays.
  void freeze() { frozen_ = true; }
  void thaw();
  /// The host sleeps, and wakes up: its clock goes on meanwhile, and its warden looks first.
  void suspend() { suspended_ = true; }
  void resume();
  [[nodiscard]] const LinkPlan& plan() const { return plan_; }
  [[nodiscard]] bool is_cut(bool up) const;
  /// What arrives waits in the kernel meanwhile.
  [[nodiscard]] bool reads() const { return !alive_ || (!frozen_ && !suspended_); }
  [[nodiscard]] const rdzv::AgentSession& session() const { return session_; }
  /// 0: none.
  [[nodiscard]] rdzv::ConnectionId connection() const { return connection_; }
  /// To which the connection is.
  [[nodiscard]] SimProcess& place() const { return *place_; }
  /// The service has told it an outcome.
  [[nodiscard]] bool was_told() const { return was_told_; }
  /// For so long it has heard nothing of the service, by its own clock; since its start at most.
  [[nodiscard]] Duration silence() const { return clock_.now() - heard_at_; }

  // For the service's end of the connection.
  void connection_failed(rdzv::ConnectionId id, bool refused);
  void connected(rdzv::ConnectionId id);
  void arrived(rdzv::ConnectionId id, const std::string& bytes);

 private:
  void on(rdzv::SessionEvent event);
  void go_on();
  void fail_to_open(rdzv::ConnectionId id, const ErrorCode& error);
  void obey(rdzv::Connect& action);
  void obey(rdzv::SendToService& action);
  void obey(rdzv::ResetConnection& action);
  void obey(rdzv::Deliver& action);
  void obey(rdzv::LeaseMoved& action);
  void obey(rdzv::Tell& action) { world_.note(session_.own_id() + ": " + action.line); }
  void send_output();
  void follow_deadline();
  void try_place();
  void next_place(const std::string& reason);
  void end_connection();
  void failed(bool refused, const std::string& reason);

  World& world_;
  const HostClock clock_;
  const std::vector<SimProcess*> places_;
  rdzv::ServiceHosts hosts_;  // the same
  int attempts_ = 0;
  SimProcess* place_;
  const LinkPlan plan_;
  std::function<void(proto::MembershipMessage)> deliver_;
  std::function<void()> lease_over_;
  rdzv::AgentSession session_;
  std::deque<rdzv::SessionEvent> events_;
  std::optional<proto::ControlChannel> channel_;
  rdzv::ConnectionId connection_ = 0;  // the newest attempt
  std::optional<Clock::time_point> deadline_;
  Clock::time_point heard_at_;  // of the host's clock
  bool was_told_ = false;
  Cut cut_ = Cut::none;
  Way way_ = Way::open;
  bool is_calm_ = false;
  Duration delay_{0};
  Duration reading_pause_{0};
  bool alive_ = true;
  bool frozen_ = false;
  bool suspended_ = false;
  bool warden_is_due_ = false;  // when the host wakes up
  bool busy_ = false;           // with events_
};

}  // namespace ddprun::sim
