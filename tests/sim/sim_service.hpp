// The rendezvous service's process and the connections to it, in the simulation: the real service,
// real bytes; the network and the disk are played.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/control_channel.hpp"
#include "rendezvous/service/service_core.hpp"
#include "tests/sim/sim_link.hpp"
#include "tests/sim/world.hpp"

namespace ddprun::sim {

/// What a service that comes back finds of its journal.
enum class Disk {
  kept,
  lost,
  flipped,  ///< all but a bit
  old,      ///< a copy of an earlier time, which was put back
};

struct ServicePlan {
  bool has_journal = true;  ///< one that has none leaves a file when it is killed
  std::string secret = {};  ///< empty: none
  std::chrono::nanoseconds lease =
      std::chrono::seconds(15);  ///< of agents of which it knows nothing
  rdzv::SnapshotSettings snapshots{0, 1};
  std::size_t unread_max = std::size_t{1} << 20;  ///< bytes on their way to an agent
};

class SimService {
 public:
  /// `after`: when events were taken.
  SimService(World& world, ServicePlan plan, std::function<void()> after);

  /// Its process ends; it comes back after a time.
  void crash(Duration away, Disk disk);
  /// Nothing can be written for a time. A crash meanwhile loses the journal, which lacks something.
  void fill_disk(Duration lasts);
  /// It is back at once, the disk has room, and no crash is to come.
  void heal();
  [[nodiscard]] bool is_up() const { return core_.has_value(); }
  /// Null: nobody has joined.
  [[nodiscard]] const rdzv::Membership* membership() const;
  [[nodiscard]] const rdzv::Job* job() const;
  /// What it did that its journal does not explain. Empty: nothing.
  [[nodiscard]] const std::string& broken() const { return broken_; }
  /// The next crash comes in the middle of what it does: what is durable was not told.
  void crash_while_telling(Duration away) { crash_while_telling_ = away; }
  /// The same in the middle of what it writes: some of that is cut.
  void crash_while_writing(Duration away) { crash_while_writing_ = away; }
  [[nodiscard]] bool is_to_crash() const { return crash_while_telling_ || crash_while_writing_; }
  /// What the last events were to the job, in their order.
  [[nodiscard]] std::vector<rdzv::JobRecord> take_records() { return std::exchange(records_, {}); }
  [[nodiscard]] int connections_ended_for_unread() const { return ended_for_unread_; }

  // For the agents' ends.
  rdzv::ConnectionId connect(SimLink& link);
  void send(rdzv::ConnectionId id, std::string bytes);
  /// No more bytes come from the agent; `cleanly`: by FIN.
  void end(rdzv::ConnectionId id, bool cleanly);

  // What goes wrong on the way.
  /// Both sides get a reset, and some of what was on its way is lost, from any byte on.
  void reset(rdzv::ConnectionId id);
  /// What is between the two has forgotten the connection: all that is sent is lost, and answered
  /// by a reset or by nothing.
  void sever(rdzv::ConnectionId id, bool answers);
  /// A forwarder between the two has ended, and its kernel ends both connections.
  void end_forwarded(rdzv::ConnectionId id);

 private:
  struct Item {
    std::string bytes;
    bool ends = false;
    bool cleanly = false;
  };
  /// One direction of a connection: what is on its way arrives in order.
  struct Pipe {
    std::deque<Item> items;
    std::size_t bytes = 0;
    bool moves = false;
  };
  enum class Middle { passes, answers, silent };
  struct Wire {
    SimLink* link = nullptr;
    std::optional<proto::ControlChannel> channel;  // none: the service's end is closed
    bool told = false;                             // the core knows of it
    proto::AgentId session;                        // that goes on here
    Middle middle = Middle::passes;
    Pipe up;
    Pipe down;
  };

  /// Some of what a replay must bring back.
  struct Known {
    std::optional<Clock::time_point> deadline;
    proto::RoundNumber next_round = 0;
    int restart_count = 0;
    std::size_t sessions = 0;
    friend bool operator==(const Known&, const Known&) = default;
  };

  [[nodiscard]] static Known known(const std::optional<rdzv::ServiceCore>& core);
  std::vector<rdzv::JobRecord> restore();
  [[nodiscard]] rdzv::ServiceCore replayed(const std::vector<rdzv::JobRecord>& records) const;
  void write(const rdzv::ServiceActions& actions);
  void forget();
  void check_cause(const rdzv::ServiceActions& actions);
  void check_cause(const Wire& wire, const proto::ServiceMessage& message);
  void flip_bit();
  void begin();
  void come_back();
  void make_room();
  void on(const rdzv::ServiceEvent& event);
  void obey(rdzv::ServiceActions& actions);
  void push(rdzv::ConnectionId id, bool up, Item item);
  void move(rdzv::ConnectionId id, bool up);
  void arrived_up(rdzv::ConnectionId id, Wire& wire, const Item& item);
  void refuse_proof(rdzv::ConnectionId id, Wire& wire);
  void send_output(rdzv::ConnectionId id, Wire& wire);
  void close(rdzv::ConnectionId id, Wire& wire);
  void lose_connection(rdzv::ConnectionId id, bool cleanly);
  void try_to_connect(rdzv::ConnectionId id, SimLink& link, int attempt);
  void follow_deadline();

  World& world_;
  const ServicePlan plan_;
  std::function<void()> after_;
  std::optional<rdzv::ServiceCore> core_;
  std::optional<rdzv::ServiceCore> durable_;  // another one, of what was written and nothing else
  std::string disk_;                          // a journal
  std::string old_disk_;                      // a copy of an earlier time
  std::string unwritten_;                     // of it, while the disk is full
  bool disk_full_ = false;
  bool is_forgotten_ = false;     // the job, by the journal
  bool has_clock_ = false;        // the journal's file of its own, which says that nothing was lost
  Disk disk_later_ = Disk::kept;  // what it finds when it comes back
  std::optional<Known> before_crash_;  // if the journal has all of it
  std::string broken_;
  std::optional<std::chrono::nanoseconds>
      lease_of_workers_;  // what its file says, without a journal
  std::vector<rdzv::JobRecord> records_;
  std::map<rdzv::ConnectionId, Wire> wires_;
  rdzv::ConnectionId connections_ = 0;
  int ended_for_unread_ = 0;
  std::optional<Clock::time_point> deadline_;
  std::optional<Duration> crash_while_telling_;
  std::optional<Duration> crash_while_writing_;
};

}  // namespace ddprun::sim
