// A whole job in the simulation: the real service, sessions and nodes, the network between them,
// faults, and what must hold at every moment.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/sim_link.hpp"
#include "tests/sim/sim_node.hpp"
#include "tests/sim/sim_service.hpp"

namespace ddprun::sim {

/// Which faults a history has; each seed draws its own.
struct Faults {
  bool workers_fail = false;
  bool bad_batch = false;  ///< many of them fail at nearly one time
  bool workers_hang = false;
  bool nodes_crash = false;
  bool nodes_vanish = false;  ///< silently: it takes a lease until they count as lost
  bool nodes_come = false;
  bool nodes_leave = false;    ///< by SIGTERM
  bool cancelled = false;      ///< by SIGINT
  bool agents_freeze = false;  ///< SIGSTOP; their workers run on
  bool hosts_sleep = false;    ///< suspend to memory: nothing of them runs, clocks go on
  bool clocks_differ = false;  ///< in speed, by as much as is allowed
  bool network_cut = false;
  bool links_slow = false;    ///< for a time, by seconds
  bool links_hiccup = false;  ///< now and then what is sent waits up to a second
  bool service_crashes = false;
  bool service_forgets = false;  ///< it may come back without its journal, or with a damaged one
  bool disk_fills = false;       ///< for a time; the journal is lost if the service crashes then
  /// It never had one. Nodes that it has forgotten need not be there to tell of the past: rounds
  /// and restarts are then counted anew.
  bool service_has_no_journal = false;
};

/// What a history of one job came to.
struct History {
  std::optional<proto::Finished> outcome;
  int rounds = 0;
  int restarts = 0;
  int culprits = 0;  ///< of those that were found, the ones that could be checked
  std::uint64_t hash = 0;
  Duration lasted{0};
  std::set<std::pair<int, int>> cells;  ///< of the core's table that were used
  std::vector<std::string> violations;  ///< of what must hold
};

/// Those of one history.
Faults draw_faults(World& world);

class SimJob {
 public:
  explicit SimJob(std::uint64_t seed);
  /// Faults for so long, then none; until the job is over, or much too late.
  History run(Duration faults_for);

 private:
  using RoundId = std::pair<proto::Epoch, proto::RoundNumber>;
  /// What can be known of the rounds so far.
  struct Past {
    std::optional<RoundId> newest;
    std::optional<proto::RoundNumber> number;  // in any epoch, of which workers were started
    int restart_count = 0;
  };
  /// One agent process; a node that comes back is another.
  struct Agent {
    proto::AgentId id;
    std::unique_ptr<SimNode> node;
    std::unique_ptr<SimLink> link;
    std::optional<proto::Finished> told;
    Past past;  // as its rounds told it
  };
  struct WorkerId {
    proto::AgentId agent;
    int local_rank = 0;
    auto operator<=>(const WorkerId&) const = default;
  };
  struct RoundSeen {
    int world_size = 0;
    int nodes = 0;
    std::set<std::pair<int, int>> sizes;  // of the world and of the group, as the nodes were told
    std::set<std::string> stores;
    std::map<int, int> first_ranks;  // with how many workers
    int done = 0;
    Clock::time_point formed_at;
    std::map<WorkerId, Clock::time_point> failed;  // by themselves, not as victims
    std::map<proto::AgentId, std::chrono::nanoseconds> uncertainties;  // of the times that they say
  };

  Agent& add_node(const std::string& name);
  void see_service();
  void see_formed(const rdzv::Membership& membership);
  void see_round(const RoundId& id, const proto::Round& round, int workers);
  [[nodiscard]] Past known_to_service() const;
  void check_newest_round();
  void workers_started(Agent& agent);
  void worker_failed(Agent& agent, int local_rank, bool victim);
  /// Its workers' peers lose them, wherever they are.
  void lose(const Agent& agent);
  void check_culprit(const RoundSeen& round, const proto::FailedWorker& culprit);
  void drop(Agent& agent, bool silently);
  void do_harm();
  void leave(Agent& leaver, int signal);
  void freeze(Agent& victim);
  void put_to_sleep(Agent& victim);
  void harmed(Duration lasts = {});
  void harm_network(Agent& victim);
  void cut(Agent& victim, Cut way, Duration lasts);
  [[nodiscard]] Duration draw_cut();
  void slow_down(Agent& victim);
  void harm_service();
  void be_replaced();
  void miss_round();
  [[nodiscard]] Fate draw_fate();
  void require(bool holds, const std::string& what);

  World world_;
  Faults faults_;
  proto::JobSettings settings_;
  std::chrono::nanoseconds lease_;
  SimService service_;
  std::map<proto::AgentId, Agent> agents_;
  int names_ = 0;
  bool harm_ = true;
  Clock::time_point harmed_until_{};  // until then something other than a worker has failed
  Duration work_{0};                  // of a round without faults
  bool fails_soon_ = false;           // the worker that is started next
  Duration bad_batch_{0};             // when workers come to it
  std::map<RoundId, RoundSeen> rounds_;
  std::optional<proto::RoundNumber> newest_started_;  // in any epoch
  std::set<RoundId> after_failure_;                   // of a worker, in the round before
  rdzv::JobState state_ = rdzv::JobState::forming;    // as it was last seen
  int last_restart_count_ = 0;
  History history_;
};

}  // namespace ddprun::sim
