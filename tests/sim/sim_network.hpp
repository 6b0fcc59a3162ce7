// The rendezvous service's process and the connections to it, in the simulation: real sessions,
// real bytes; the network and the disk are played.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proto/control_channel.hpp"
#include "rendezvous/client/agent_session.hpp"
#include "rendezvous/service/service_core.hpp"
#include "tests/sim/world.hpp"

namespace ddprun::sim {

inline constexpr const char* kRunId = "job";

/// Which way a cut network loses what is sent. Connections stay, and what was sent arrives later.
enum class Cut { none, up, down, both };

class SimService;

/// What a service that comes back finds of its journal: all, nothing, or all but a bit.
enum class Disk { kept, lost, flipped };

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

class SimService {
 public:
  /// One that has no journal leaves a file when it is killed. `after`: when events were taken.
  SimService(World& world, bool has_journal, std::function<void()> after);

  /// Its process ends; it comes back after a time.
  void crash(Duration away, Disk disk);
  /// Nothing can be written for a time. A crash meanwhile loses the journal, which lacks something.
  void fill_disk(Duration lasts);
  [[nodiscard]] bool is_up() const { return core_.has_value(); }
  /// Null: nobody has joined.
  [[nodiscard]] const rdzv::Membership* membership() const;
  [[nodiscard]] const rdzv::Job* job() const;
  /// A service came back with a whole journal, and was not what it was before.
  [[nodiscard]] bool replay_differed() const { return replay_differed_; }
  /// The next crash comes in the middle of what it does: what is durable was not told.
  void crash_while_telling(Duration away) { crash_while_telling_ = away; }
  /// The same in the middle of what it writes: some of that is cut.
  void crash_while_writing(Duration away) { crash_while_writing_ = away; }
  /// What the last events were to the job, in their order.
  [[nodiscard]] std::vector<rdzv::JobRecord> take_records() { return std::exchange(records_, {}); }

  // For the agents' ends.
  rdzv::ConnectionId connect(SimLink& link);
  void send(rdzv::ConnectionId id, std::string bytes);
  /// No more bytes come from the agent; `cleanly`: by FIN.
  void end(rdzv::ConnectionId id, bool cleanly);

 private:
  struct Item {
    std::string bytes;
    bool ends = false;
    bool cleanly = false;
  };
  /// One direction of a connection: what is on its way arrives in order.
  struct Pipe {
    std::deque<Item> items;
    bool moves = false;
  };
  struct Wire {
    SimLink* link = nullptr;
    std::optional<proto::ControlChannel> channel;  // none: the service's end is closed
    bool told = false;                             // the core knows of it
    Pipe up;
    Pipe down;
  };

  /// Some of what a replay must bring back.
  struct Known {
    std::optional<Clock::time_point> deadline;
    proto::RoundNumber next_round = 0;
    int restart_count = 0;
    friend bool operator==(const Known&, const Known&) = default;
  };

  [[nodiscard]] Known known() const;
  std::vector<rdzv::JobRecord> restore();
  void write(const rdzv::ServiceActions& actions);
  void flip_bit();
  void begin();
  void on(const rdzv::ServiceEvent& event);
  void obey(rdzv::ServiceActions& actions);
  void push(rdzv::ConnectionId id, bool up, Item item);
  void move(rdzv::ConnectionId id, bool up);
  void arrived_up(rdzv::ConnectionId id, Wire& wire, const Item& item);
  void send_output(rdzv::ConnectionId id, Wire& wire);
  void close(rdzv::ConnectionId id, Wire& wire);
  void follow_deadline();

  World& world_;
  std::function<void()> after_;
  std::optional<rdzv::ServiceCore> core_;
  std::string disk_;       // a journal
  std::string unwritten_;  // of it, while the disk is full
  bool disk_full_ = false;
  std::optional<Known> before_crash_;  // if the journal has all of it
  bool replay_differed_ = false;
  const bool leaves_file_;
  std::optional<std::chrono::nanoseconds> lease_of_workers_;  // what that says
  std::vector<rdzv::JobRecord> records_;
  std::map<rdzv::ConnectionId, Wire> wires_;
  rdzv::ConnectionId connections_ = 0;
  std::optional<Clock::time_point> deadline_;
  std::optional<Duration> crash_while_telling_;
  std::optional<Duration> crash_while_writing_;
};

}  // namespace ddprun::sim
