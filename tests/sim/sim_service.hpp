// The rendezvous service's process and the connections to it, in the simulation: the real service,
// real bytes; the network and the disk are played.
#pragma once

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

/// What a service that comes back finds of its journal: all, nothing, or all but a bit.
enum class Disk { kept, lost, flipped };

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
