// Once all faults have ended at one time, a round forms soon, or the job ends.
#include <algorithm>

#include <fmt/format.h>

#include "tests/sim/sim_job.hpp"

namespace ddprun::sim {

using namespace std::chrono_literals;

namespace {

/// An attempt to connect that began before, and the pause after it.
constexpr Duration kAttempt = 6s;
/// Workers that were sent SIGKILL, what they left, and messages on their way.
constexpr Duration kMoments = 1s;
/// Until another one leads: the lease of the one before, and of each agent an attempt at a place
/// that does not lead.
constexpr Duration kElection = 5s + 1s + kAttempt;
/// A lease that ends late, by the clock of a member of etcd.
constexpr Duration kLateLease = 2s;

}  // namespace

/// After the last fault: a node that is gone counts as lost after its lease, the others stop their
/// workers, and those that are there wait for more.
Duration SimJob::formed_within() const {
  return rdzv::ServiceCore::kKillMargin + plan_.lease + plan_.lease / 100 + plan_.job.last_call +
         std::max<Duration>(plan_.grace_period, 0s) + kAttempt + kMoments +
         (faults_.nodes_are_checked ? 2 * kCheckTimeout : 0s) +
         (faults_.over_etcd ? kElection : Duration(0)) +
         (faults_.etcd_clocks_are_wrong ? kLateLease : Duration(0));
}

void SimJob::heal() {
  harm_ = false;
  healed_ = true;
  world_.note("all is well again");
  for (Agent* agent : alive()) {
    agent->link->set_cut(Cut::none);
    agent->link->set_way(Way::open);
    agent->link->set_delay(0s);
    agent->link->calm_down();
    agent->link->set_reading_pause(0s);
    agent->link->thaw();
    agent->node->thaw();
    if (!agent->node->suspended()) continue;
    agent->link->resume();
    agent->node->resume();
  }
  rendezvous_.heal();
  if (history_.outcome) return;
  history_.healed = true;
  keep_enough_nodes();
  watch();
}

/// As many as the job needs, each with a rank of its own where ranks count.
void SimJob::keep_enough_nodes() {
  // A node that is new in every respect cannot tell a service without memory of the others.
  if (faults_.service_forgets && !faults_.service_has_no_journal) return;
  while (!has_enough_nodes()) {
    Host& host = new_host();
    if (plan_.ranks == Ranks::insisted) {
      std::set<int> taken;
      for (Agent* agent : alive())
        if (!agent->leaves) taken.insert(*agent->host->node_rank);
      host.node_rank = 0;
      while (taken.contains(*host.node_rank)) ++*host.node_rank;
    }
    add_node(host);
  }
}

bool SimJob::has_enough_nodes() {
  std::set<int> ranks;
  int nodes = 0;
  for (const Agent* agent : alive()) {
    const bool can = agent->stranger == Stranger::no || agent->stranger == Stranger::other_settings;
    if (agent->leaves || !can) continue;
    ++nodes;
    ranks.insert(agent->host->node_rank.value_or(0));
  }
  if (plan_.ranks == Ranks::insisted) nodes = static_cast<int>(ranks.size());
  return nodes >= plan_.job.min_nodes;
}

/// A round is out, and each of its nodes has it.
bool SimJob::runs_well() {
  const rdzv::Membership* membership = rendezvous_.membership();
  if (membership == nullptr || membership->state() != rdzv::JobState::running) return false;
  const RoundId id{membership->epoch(), membership->next_round() - 1};
  const auto found = rounds_.find(id);
  if (found == rounds_.end()) return false;
  for (const auto& [session, rank] : found->second.group_ranks) {
    if (!membership->group_rank(session)) continue;  // its work was done before it went
    const Agent& agent = agent_of(session);
    const agent::NodeMachine& machine = agent.node->machine();
    const agent::NodeRound* round = machine.round();
    const bool has_it = agent.node->alive() && agent.link->session().own_id() == session &&
                        round != nullptr &&
                        RoundId{round->round.epoch, round->round.number} == id && !round->stop;
    if (!has_it) return false;
  }
  return true;
}

void SimJob::watch() {
  if (!healed_) return;
  if (history_.outcome || !has_enough_nodes()) {
    ill_since_.reset();
  } else if (runs_well()) {
    if (!ill_since_) return;
    ++history_.formed_again;
    history_.slowest =
        std::max(history_.slowest, world_.now() - std::max(*ill_since_, planned_until_));
    ill_since_.reset();
  } else if (!ill_since_) {
    ill_since_ = world_.now();
    disturbed();
  }
}

/// Something goes wrong though all faults have ended: a worker was to fail, or a node to go. The
/// time begins anew.
void SimJob::disturbed() {
  if (!ill_since_) return;
  ill_since_ = world_.now();
  world_.at(*ill_since_ + formed_within(), [this] { check_formed(); });
}

/// By then a round runs, unless a restart has to wait longer.
void SimJob::check_formed() {
  if (!ill_since_) return;
  const Clock::time_point due = std::max(*ill_since_, planned_until_) + formed_within();
  if (world_.now() < due) return world_.at(due, [this] { check_formed(); });
  watch();
  require(!ill_since_, fmt::format("a round forms within {:.1f} s of the last fault",
                                   std::chrono::duration<double>(formed_within()).count()));
}

}  // namespace ddprun::sim
