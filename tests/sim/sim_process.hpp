// A process with a rendezvous service and the connections to it, in the simulation: the real
// service, real bytes; the network is played. How it remembers its jobs is its kind's matter.
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

struct ServicePlan {
  bool has_journal = true;  ///< one that has none leaves a file when it is killed
  std::string secret = {};  ///< empty: none
  std::chrono::nanoseconds lease =
      std::chrono::seconds(15);  ///< of agents of which it knows nothing
  rdzv::SnapshotSettings snapshots{0, 1};
  std::size_t unread_max = std::size_t{1} << 20;  ///< bytes on their way to an agent
};

class SimProcess {
 public:
  /// `place`: HOST:PORT. `first`: no other process gives its connections the numbers behind it.
  SimProcess(World& world, ServicePlan plan, std::string place, rdzv::ConnectionId first)
      : world_(world), plan_(std::move(plan)), place_(std::move(place)), connections_(first) {}
  SimProcess(const SimProcess&) = delete;
  SimProcess& operator=(const SimProcess&) = delete;
  virtual ~SimProcess() = default;

  [[nodiscard]] const std::string& place() const { return place_; }
  /// Something listens there.
  [[nodiscard]] virtual bool is_up() const = 0;
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

 protected:
  /// Some of what a replay must bring back.
  struct Known {
    std::optional<Clock::time_point> deadline;
    proto::RoundNumber next_round = 0;
    int restart_count = 0;
    std::size_t sessions = 0;
    friend bool operator==(const Known&, const Known&) = default;
  };

  virtual void on(const rdzv::ServiceEvent& event) = 0;
  /// How long what has arrived waits until the process looks for it; none: it does now.
  [[nodiscard]] virtual std::optional<Duration> busy_for() { return std::nullopt; }
  /// When the service's clock will show that, in the world's time.
  [[nodiscard]] virtual Clock::time_point in_world(Clock::time_point at) const { return at; }

  [[nodiscard]] static Known known(const std::optional<rdzv::ServiceCore>& core);
  [[nodiscard]] const rdzv::Job* job_of_core() const;
  /// What is told follows from what is written: a service that has only that would tell the same.
  void check_cause(const rdzv::ServiceActions& actions);
  void tell(rdzv::ServiceActions& actions);
  void close_all();
  void follow_deadline();
  void stop_core();

  World& world_;
  const ServicePlan plan_;
  std::optional<rdzv::ServiceCore> core_;
  std::optional<rdzv::ServiceCore> durable_;  // another one, of what was written and nothing else
  std::string broken_;                        // what it did that its journal does not explain

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

  void check_cause(const Wire& wire, const proto::ServiceMessage& message);
  void push(rdzv::ConnectionId id, bool up, Item item);
  void move(rdzv::ConnectionId id, bool up);
  void arrived_up(rdzv::ConnectionId id, Wire& wire, const Item& item);
  void refuse_proof(rdzv::ConnectionId id, Wire& wire);
  void send_output(rdzv::ConnectionId id, Wire& wire);
  void close(rdzv::ConnectionId id, Wire& wire);
  void lose_connection(rdzv::ConnectionId id, bool cleanly);
  void try_to_connect(rdzv::ConnectionId id, SimLink& link, int attempt);
  void greet(rdzv::ConnectionId id);
  void deadline_passed(Clock::time_point when);

  const std::string place_;
  std::map<rdzv::ConnectionId, Wire> wires_;
  rdzv::ConnectionId connections_;
  int ended_for_unread_ = 0;
  std::optional<Clock::time_point> deadline_;
};

/// The rendezvous of a job: one service, or several of which one has the jobs.
class SimRendezvous {
 public:
  SimRendezvous() = default;
  SimRendezvous(const SimRendezvous&) = delete;
  SimRendezvous& operator=(const SimRendezvous&) = delete;
  virtual ~SimRendezvous() = default;

  /// Where agents may find it.
  [[nodiscard]] virtual std::vector<SimProcess*> places() = 0;
  /// Null: nobody has joined, or no service is there.
  [[nodiscard]] virtual const rdzv::Job* job() const = 0;
  /// What must not be. Empty: nothing.
  [[nodiscard]] virtual const std::string& broken() const = 0;
  /// What the last events were to the job, in their order.
  [[nodiscard]] virtual std::vector<rdzv::JobRecord> take_records() = 0;
  /// Nothing goes wrong any more.
  virtual void heal() = 0;

  /// Null: nobody has joined.
  [[nodiscard]] const rdzv::Membership* membership() const {
    const rdzv::Job* found = job();
    return found != nullptr ? found->membership() : nullptr;
  }
};

}  // namespace ddprun::sim
