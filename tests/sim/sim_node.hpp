// A node in the simulation: the real decisions (agent::NodeMachine) over workers that are played.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/node/node_machine.hpp"
#include "tests/sim/world.hpp"

namespace ddprun::sim {

/// How a played worker ends if nobody stops it.
struct Fate {
  enum class Kind { succeeds, fails, hangs } kind = Kind::succeeds;
  Duration after{0};
};

/// How a played check (--preflight) ends.
struct CheckFate {
  bool passes = true;
  Duration after{0};
};

class SimNode {
 public:
  /// What the rest of the simulation does for a node.
  struct Surroundings {
    std::function<void(proto::AgentMessage)> send;
    std::function<void(proto::AgentMessage, Clock::time_point round_began)> send_of_round;
    std::function<Clock::time_point()> now;  // by the host's clock
    std::function<Clock::time_point(Clock::time_point)> in_world;
    std::function<Fate()> draw_fate;
    std::function<CheckFate()> draw_check;
    std::function<void(bool passed)> check_ended;
    std::function<void()> workers_started;                           // of the machine's round
    std::function<void(int local_rank, bool victim)> worker_failed;  // by itself
    std::function<void(const proto::Finished&)> over;
  };

  /// `store_port`: of the workers' store that it offers. `workers_go_on`: some of its workers can
  /// take part in another round.
  SimNode(World& world, agent::AgentConfig config, std::uint16_t store_port, bool workers_go_on,
          Surroundings surroundings);

  void begin();
  void take(proto::MembershipMessage message);
  void signal(int signal);
  /// As a person does with ddpctl.
  void ask_restart();
  /// A peer of its workers has ended: some of them fail for that.
  void lose_peer();
  /// Its agent ends at once, without a word; its workers within so long.
  void crash(Duration workers_within = {});
  /// SIGSTOP and SIGCONT for the agent: its workers run on.
  void freeze();
  void thaw();
  /// The host sleeps, and wakes up: nothing of it runs meanwhile.
  void suspend() { suspended_ = true; }
  void resume();

  [[nodiscard]] bool alive() const { return alive_; }
  [[nodiscard]] int workers() const { return static_cast<int>(workers_.size()); }
  /// Without those that wait for a round: they do nothing.
  [[nodiscard]] int live_workers() const;
  /// Steps that the state of a running worker has; none: it has no state, or does not run.
  [[nodiscard]] std::optional<std::uint64_t> state_of(int local_rank) const;
  /// What does not hold of its workers that must; empty: all does.
  [[nodiscard]] const std::string& broken() const { return broken_; }
  [[nodiscard]] bool suspended() const { return suspended_; }
  [[nodiscard]] const std::string& name() const { return config_.node.name; }
  [[nodiscard]] const agent::NodeMachine& machine() const { return machine_; }

 private:
  struct Played {
    bool runs = false;
    bool failed = false;  // by itself
    bool victim = false;
    bool waits = false;     // it has left its round, and does nothing
    bool stubborn = false;  // ends by SIGKILL only, and never waits
    Clock::time_point failed_at{};
    std::optional<std::uint64_t> step = std::nullopt;  // of its state, when it left its last round
  };

  void on(agent::NodeEvent event);
  void go_on();
  void later(Duration time, std::function<void()> what);
  void plan_fate(int local_rank);
  void wait_for_round(int local_rank);
  [[nodiscard]] bool can_leave(int local_rank) const;
  void leave(int local_rank);
  [[nodiscard]] std::optional<std::uint64_t> step_now() const;
  void exit(int local_rank, ExitStatus status);
  void fail(int local_rank, bool victim);
  void kill(int signal);
  void kill(int local_rank, int signal);
  void follow_deadline();

  void obey(agent::Prepare& action);
  void obey(agent::RunCheck& action);
  void obey(agent::StopCheck& action);
  void obey(agent::Send& action);
  void obey(agent::StartWorkers& action);
  void obey(agent::SignalWorkers& action);
  void obey(agent::StopWorkers& action);
  void obey(agent::LookAtSuspects& action);
  void obey(agent::LookForLeftovers& action);
  void obey(agent::KillLeftovers& action);
  void obey(agent::ReadOutput& action);
  void obey(agent::ReportRound& action);
  void obey(agent::EndJob& action);
  template <class Other>
  void obey(Other&) {}

  World& world_;
  Surroundings surroundings_;
  agent::AgentConfig config_;
  agent::NodeMachine machine_;
  std::deque<agent::NodeEvent> events_;
  std::vector<Played> workers_;
  std::string broken_;
  const std::uint16_t store_port_;
  const bool workers_go_on_;
  bool has_leftovers_ = false;  // of the workers, until they are killed
  std::uint64_t checks_ = 0;    // begun or stopped
  std::uint64_t started_ = 0;   // how often the workers were: what was planned before is void
  std::optional<Clock::time_point> deadline_;
  bool alive_ = true;
  bool frozen_ = false;
  bool suspended_ = false;
  std::vector<std::function<void()>> held_;  // until the host wakes up
  bool busy_ = false;                        // with events_
  // What is planned for this node may come when it is no more.
  std::shared_ptr<bool> exists_ = std::make_shared<bool>(true);
};

}  // namespace ddprun::sim
