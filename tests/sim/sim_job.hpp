// A whole job in the simulation: the real service, sessions and nodes, the network between them,
// faults, and what must hold at every moment.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/sim/sim_cluster.hpp"
#include "tests/sim/sim_link.hpp"
#include "tests/sim/sim_node.hpp"
#include "tests/sim/sim_plan.hpp"
#include "tests/sim/sim_service.hpp"

namespace ddprun::sim {

/// What a history of one job came to.
struct History {
  std::optional<proto::Finished> outcome;
  int max_nodes = 0;
  int rounds = 0;
  int restarts = 0;
  int culprits = 0;  ///< of those that were found, the ones that could be checked
  int told = 0;      ///< agents that were told the outcome, which was compared
  bool was_mild = false;
  bool healed = false;   ///< the faults ended before the job did
  int formed_again = 0;  ///< after that: how often no round ran, and then one did
  Duration slowest{0};   ///< of these, after the last fault
  std::uint64_t hash = 0;
  bool was_over_etcd = false;
  int leaders = 0;  ///< of these, one after the other
  Duration lasted{0};
  std::set<std::pair<int, int>> cells;  ///< of the core's table that were used
  std::map<std::string, int> happened;  ///< faults, by name
  std::vector<std::string> violations;  ///< of what must hold
};

class SimJob {
 public:
  /// `faults_for`: then there are none, until the job is over or much too late.
  SimJob(std::uint64_t seed, Duration faults_for);
  History run();

 private:
  using RoundId = std::pair<proto::Epoch, proto::RoundNumber>;
  /// What can be known of the rounds so far.
  struct Past {
    std::optional<RoundId> newest;
    std::optional<proto::RoundNumber> number;  // in any epoch, of which workers were started
    int restart_count = 0;
  };
  /// A machine, on which one agent runs at a time.
  struct Host {
    std::string name;  // not unique
    std::string addr;
    std::optional<HostClock> clock;
    int boots = 0;
    int workers = 1;
    std::optional<int> node_rank;
    bool is_forwarded = false;
  };
  enum class Stranger { no, other_secret, no_secret, other_nnodes, other_settings };
  /// One agent process; a node that comes back is another.
  struct Agent {
    proto::AgentId id;
    Host* host = nullptr;
    std::unique_ptr<SimNode> node;
    std::unique_ptr<SimLink> link;
    Stranger stranger = Stranger::no;
    bool leaves = false;         // it was told to
    bool is_unsound = false;     // it has failed its newest check
    bool is_sound = false;       // it has passed a check since a round formed without it
    bool is_sound_told = false;  // and the service has been told
    bool was_there = false;      // in the job when that ended
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
    std::string reason;
    std::set<std::pair<int, int>> sizes;  // of the world and of the group, as the nodes were told
    std::set<std::string> stores;
    std::map<int, int> first_ranks;             // with how many workers
    std::map<proto::AgentId, int> group_ranks;  // by session
    // What all its nodes were told of workers that go on: how many, the source's rank and step.
    std::set<std::tuple<int, int, std::uint64_t>> kept;
    int kept_workers = 0;          // as each node was told of its own
    bool is_source_kept = false;   // it is one of them
    proto::AgentId failed_before;  // where the last round failed first; empty: it did not
    int done = 0;
    Clock::time_point formed_at;
    std::map<WorkerId, Clock::time_point> failed;  // by themselves, not as victims
    std::set<proto::AgentId> stopped;              // by session
    // When it began, as those with failures have told it until it was judged.
    std::map<proto::ClockId, std::map<proto::AgentId, std::chrono::nanoseconds>> uncertainties;
    proto::ClockId clock = 0;  // by which the last one did
    bool has_failed = false;   // a worker's failure stopped it

    void tell(const proto::AgentId& agent, const std::optional<proto::JobTime>& began);
    [[nodiscard]] bool has_told(const proto::AgentId& agent) const;
    [[nodiscard]] std::optional<std::chrono::nanoseconds> uncertainty_of(
        const proto::AgentId& agent) const;
  };

  // The rendezvous.
  [[nodiscard]] ServicePlan service_plan() const;
  [[nodiscard]] std::unique_ptr<SimService> make_service();
  [[nodiscard]] std::unique_ptr<SimCluster> make_cluster();
  [[nodiscard]] bool is_all_over();

  // Nodes.
  Host& new_host();
  void draw_clock(Host& host, bool is_booted);
  Agent& add_node(Host& host, Stranger stranger = Stranger::no);
  [[nodiscard]] agent::AgentConfig config_of(const Host& host, Stranger stranger);
  void come_back(Host& host, Duration within);
  void over(Agent& agent, const proto::Finished& finished);
  [[nodiscard]] Agent& agent_of(const proto::AgentId& session);
  [[nodiscard]] std::vector<Agent*> alive();

  // What must hold.
  void see_service();
  void see_records();
  void see_cell(rdzv::EventKind kind);
  void see_said(const rdzv::Said& said, Clock::time_point at);
  void check_times();
  void see_outcomes(const rdzv::Membership& membership);
  void see_budget(const rdzv::Membership& membership);
  void see_formed(const rdzv::Membership& membership);
  void see_round(const RoundId& id, const proto::Round& round, const proto::AgentId& session);
  [[nodiscard]] Past known_to_service() const;
  void check_newest_round();
  void check_soundness(const RoundId& id);
  void check_failing_node(const RoundSeen& seen, const rdzv::Membership& membership);
  void see_kept(RoundSeen& seen, const proto::Round& round, const Agent& agent);
  void check_kept();
  void check_asked_ranks(const RoundSeen& seen);
  void check_told(const Agent& agent);
  void check_end();
  void check_unnoticed();
  void workers_started(Agent& agent);
  void worker_failed(Agent& agent, int local_rank, bool victim);
  void check_culprit(const RoundSeen& round, const proto::FailedWorker& culprit);
  void require(bool holds, const std::string& what);

  // That a round forms soon once all faults have ended.
  void heal();
  void keep_enough_nodes();
  [[nodiscard]] bool has_enough_nodes();
  [[nodiscard]] bool runs_well();
  void watch();
  void disturbed();
  void check_formed();
  [[nodiscard]] Duration formed_within() const;

  // Faults.
  void do_harm();
  void do_mild_harm();
  void harm_node(Agent& victim);
  void harm_link(Agent& victim);
  void happened(const std::string& fault) { ++history_.happened[fault]; }
  void harmed(Duration lasts = {});
  /// Its workers' peers lose them, wherever they are.
  void lose(const Agent& agent);
  void drop(Agent& agent, bool silently, Duration workers_within = {});
  void reboot(Agent& agent);
  void add_newcomer();
  void leave(Agent& leaver, int signal);
  void ask_restart(Agent& agent);
  void freeze(Agent& victim);
  void put_to_sleep(Agent& victim);
  void cut(Agent& victim, Cut way, Duration lasts);
  [[nodiscard]] Cut draw_way();
  [[nodiscard]] Duration draw_cut();
  void break_connection(Agent& victim);
  void reject(Agent& victim, Duration lasts);
  void end_forwarder(Agent& victim);
  void slow_down(Agent& victim);
  void slow_reader(Agent& victim, Duration pause, Duration lasts);
  void harm_service();
  void crash_service(Duration away);
  void harm_cluster();
  Duration do_mild_harm_to_cluster();
  void be_replaced();
  void miss_round();
  [[nodiscard]] Fate draw_fate();
  [[nodiscard]] CheckFate draw_check();
  void check_ended(Agent& agent, bool passed);

  World world_;
  const Faults faults_;
  const Duration faults_for_;
  const Plan plan_;
  const Clock::time_point began_;
  // One of the two.
  std::unique_ptr<SimService> service_;
  std::unique_ptr<SimCluster> cluster_;
  SimRendezvous& rendezvous_;
  std::deque<Host> hosts_;
  std::map<proto::AgentId, Agent> agents_;
  bool harm_ = true;
  Clock::time_point harmed_until_{};  // until then something other than a worker has failed
  bool fails_soon_ = false;           // the worker that is started next
  std::map<RoundId, RoundSeen> rounds_;
  std::set<proto::AgentId> joined_;  // for the next round, or the one that is out
  proto::AgentId failing_;           // where the newest rounds in a row failed first
  int failing_rounds_ = 0;           // so many
  std::optional<proto::RoundNumber> newest_started_;  // in any epoch
  std::set<RoundId> after_failure_;                   // of a worker, in the round before
  rdzv::JobState state_ = rdzv::JobState::forming;    // as it was last seen
  int last_restart_count_ = 0;
  Clock::time_point failed_at_{};               // the round that failed last
  std::vector<Clock::time_point> restarts_at_;  // when the rounds before them failed
  std::vector<proto::Finished> outcomes_;       // one, unless the job was run again
  bool healed_ = false;
  Clock::time_point planned_until_{};           // no sooner may the next round form
  std::optional<Clock::time_point> ill_since_;  // no round runs, though one could
  History history_;
};

}  // namespace ddprun::sim
