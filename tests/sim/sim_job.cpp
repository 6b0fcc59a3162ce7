#include "tests/sim/sim_job.hpp"

#include <fmt/format.h>

#include <csignal>

namespace ddprun::sim {

using namespace std::chrono_literals;
using proto::Finished;

namespace {

constexpr Duration kConnectionEnds = 50ms;   // of a process that is gone
constexpr Duration kLeaseIsOver = 17'150ms;  // 1.01 x 15 s + 2 s
constexpr Duration kMuchTooLate = std::chrono::hours(2);

proto::JobSettings draw_settings(World& world) {
  proto::JobSettings settings;
  settings.max_nodes = 1 + static_cast<int>(world.below(5));
  settings.min_nodes =
      world.one_in(2)
          ? settings.max_nodes
          : 1 + static_cast<int>(world.below(static_cast<std::uint64_t>(settings.max_nodes)));
  settings.restart.max_restarts = static_cast<int>(world.below(world.one_in(2) ? 4 : 40));
  if (world.one_in(3)) settings.restart.back_off = 1s;
  if (world.one_in(4)) settings.grow_delay.reset();
  if (world.one_in(6)) settings.max_node_changes = static_cast<int>(world.below(8));
  settings.last_call = world.one_in(2) ? 30s : 100ms;
  return settings;
}

Faults draw_faults(World& world) {
  Faults faults;
  if (world.one_in(8)) return faults;
  for (bool* fault : {&faults.workers_fail, &faults.workers_hang, &faults.nodes_crash,
                      &faults.nodes_vanish, &faults.nodes_come, &faults.nodes_leave})
    *fault = world.one_in(2);
  faults.cancelled = world.one_in(6);
  return faults;
}

}  // namespace

SimJob::SimJob(std::uint64_t seed)
    : world_(seed),
      faults_(draw_faults(world_)),
      settings_(draw_settings(world_)),
      core_(settings_, world_.now(), 1),
      work_(1s + (world_.one_in(3) ? world_.up_to(30s) : world_.up_to(5min))) {}

History SimJob::run(Duration faults_for) {
  for (int i = 0; i < settings_.max_nodes; ++i) {
    world_.after(world_.up_to(i == 0 ? 1ms : 3s), [this] {
      if (core_.state() != rdzv::JobState::finished) add_node(fmt::format("node{}", names_++));
    });
  }
  const auto began = world_.now();
  world_.after(world_.up_to(10s), [this] { do_harm(); });
  world_.after(faults_for, [this] { harm_ = false; });
  follow_deadline();
  while (world_.step(began + faults_for + kMuchTooLate)) {
    if (!history_.outcome && core_.outcome()) {
      history_.outcome = core_.outcome();
      history_.lasted = world_.now() - began;
    }
    if (!history_.violations.empty()) break;
  }
  require(history_.outcome.has_value() || agents_.empty(), "the job has an outcome");
  for (const auto& [id, agent] : agents_)
    require(!agent.node->alive(), fmt::format("{} was told the end", id));
  if (history_.outcome && history_.outcome->outcome == Finished::Outcome::succeeded) {
    const RoundSeen& last = rounds_.rbegin()->second;
    require(last.done == last.nodes, "all nodes of the last round were done");
  }
  const bool no_faults = !faults_.workers_fail && !faults_.workers_hang && !faults_.nodes_crash &&
                         !faults_.nodes_vanish && !faults_.nodes_leave && !faults_.cancelled;
  if (no_faults) {
    require(core_.restart_count() == 0, "no restart without a fault");
    require(history_.outcome && history_.outcome->outcome == Finished::Outcome::succeeded,
            "a job without faults succeeds");
  }
  history_.rounds = static_cast<int>(rounds_.size());
  history_.restarts = core_.restart_count();
  history_.hash = world_.hash();
  return history_;
}

void SimJob::require(bool holds, const std::string& what) {
  if (!holds) history_.violations.push_back(what);
}

// ---- nodes and the way to the core ----

SimJob::Agent& SimJob::add_node(const std::string& name) {
  const proto::AgentId id = fmt::format("{}#{}", name, agents_.size());
  Agent& agent = agents_[id];
  agent.id = id;
  agent.node = std::make_unique<SimNode>(
      world_, name, 1 + static_cast<int>(world_.below(3)), settings_,
      SimNode::Surroundings{
          [this, &agent](proto::AgentMessage message) { to_core(agent, std::move(message)); },
          [this] { return draw_fate(); }, [this, &agent] { workers_started(agent); },
          [this, &agent] { worker_failed(agent); },
          [&agent](const Finished& finished) { agent.told = finished; }});
  agent.node->begin();
  return agent;
}

void SimJob::to_core(Agent& agent, proto::AgentMessage message) {
  agent.up_free = std::max(agent.up_free, world_.now() + world_.up_to(2ms));
  world_.at(agent.up_free, [this, &agent, message = std::move(message)] {
    if (const auto* done = std::get_if<proto::WorkersDone>(&message)) ++rounds_[done->round].done;
    tell_core(rdzv::FromAgent{agent.id, message});
  });
}

void SimJob::tell_core(const rdzv::MembershipEvent& event) {
  const auto* from = std::get_if<rdzv::FromAgent>(&event);
  const auto kind = from != nullptr ? static_cast<rdzv::EventKind>(from->message.index())
                    : std::holds_alternative<rdzv::AgentLost>(event) ? rdzv::EventKind::lost
                                                                     : rdzv::EventKind::deadline;
  history_.cells.emplace(static_cast<int>(core_.state()), static_cast<int>(kind));
  auto actions = core_.on(event, world_.now());
  world_.note(actions.log);
  for (rdzv::Send& message : actions.sends) {
    const auto* round = std::get_if<proto::Round>(&message.message);
    if (round != nullptr) see_round(*round, agents_.at(message.to).node->workers());
    send(std::move(message));
  }
  if (!actions.sends.empty()) check_newest_round();
  require(core_.restart_count() >= last_restart_count_, "the restart count never falls");
  require(core_.restart_count() <= settings_.restart.max_restarts, "the budget holds");
  last_restart_count_ = core_.restart_count();
  follow_deadline();
}

void SimJob::follow_deadline() {
  if (deadline_ == core_.deadline()) return;
  deadline_ = core_.deadline();
  if (!deadline_) return;
  world_.at(*deadline_, [this, when = *deadline_] {
    if (deadline_ != when) return;
    deadline_.reset();
    tell_core(rdzv::DeadlinePassed{});
  });
}

void SimJob::send(rdzv::Send message) {
  Agent& agent = agents_.at(message.to);
  agent.down_free = std::max(agent.down_free, world_.now() + world_.up_to(2ms));
  world_.at(agent.down_free, [&agent, message = std::move(message.message)] {
    if (agent.node->alive()) agent.node->take(message);
  });
}

// ---- what must hold of rounds ----

void SimJob::see_round(const proto::Round& round, int workers) {
  RoundSeen& seen = rounds_[round.number];
  require(rounds_.rbegin()->first == round.number, "round numbers rise");
  if (round.last_culprit) after_failure_.insert(round.number);
  require(static_cast<int>(after_failure_.size()) <= settings_.restart.max_restarts,
          "no more rounds after failures than the budget allows");
  seen.world_size = round.world_size;
  seen.nodes = round.group_world_size;
  seen.sizes.insert({round.world_size, round.group_world_size});
  seen.stores.insert(round.master_addr);
  seen.first_ranks[round.first_rank] += workers;
}

/// All messages of a round leave the core at one time: each rank is given once, all agree.
void SimJob::check_newest_round() {
  if (rounds_.empty()) return;
  const RoundSeen& seen = rounds_.rbegin()->second;
  require(seen.sizes.size() == 1 && seen.stores.size() == 1, "the nodes of a round agree");
  require(static_cast<int>(seen.first_ranks.size()) == seen.nodes, "each node has its own ranks");
  int next = 0;
  for (const auto& [first, workers] : seen.first_ranks) {
    require(first == next, "the ranks have no gap and do not overlap");
    next = first + workers;
  }
  require(next == seen.world_size, "the ranks are the world");
}

void SimJob::workers_started(Agent& agent) {
  const auto number = agent.node->machine().round()->round.number;
  world_.note(fmt::format("{} starts {}", agent.id, number));
  for (const auto& [id, other] : agents_) {
    if (!other.node->alive() || other.node->live_workers() == 0) continue;
    require(other.node->machine().round()->round.number == number,
            fmt::format("{} has workers of another round than {}", id, agent.id));
  }
}

// ---- faults ----

Fate SimJob::draw_fate() {
  if (harm_ && faults_.workers_fail && world_.one_in(8))
    return {Fate::Kind::fails, world_.up_to(std::min<Duration>(work_, 1min))};
  if (harm_ && faults_.workers_hang && world_.one_in(20))
    return {Fate::Kind::hangs, world_.up_to(std::min<Duration>(work_, 1min))};
  return {Fate::Kind::succeeds, work_ + world_.up_to(100ms)};
}

/// Its peers lose it, wherever they are.
void SimJob::worker_failed(Agent& agent) {
  for (auto& [id, other] : agents_)
    if (&other != &agent && other.node->alive()) other.node->lose_peer();
}

/// The process is gone; or the machine, which nobody says.
void SimJob::drop(Agent& agent, bool silently) {
  const bool had_workers = agent.node->live_workers() > 0;
  world_.note(agent.id + (silently ? " vanishes" : " crashes"));
  agent.node->crash();
  if (had_workers && !silently) worker_failed(agent);
  world_.at(std::max(agent.up_free, world_.now() + (silently ? kLeaseIsOver : kConnectionEnds)),
            [this, &agent] { tell_core(rdzv::AgentLost{agent.id}); });
  if (world_.one_in(4)) return;
  world_.after(world_.up_to(40s), [this, name = agent.node->name()] { add_node(name); });
}

void SimJob::do_harm() {
  if (!harm_ || core_.state() == rdzv::JobState::finished) return;
  world_.after(world_.up_to(20s), [this] { do_harm(); });
  std::vector<Agent*> alive;
  for (auto& [id, agent] : agents_)
    if (agent.node->alive()) alive.push_back(&agent);
  if (alive.empty()) return;
  Agent& victim = *alive[world_.below(alive.size())];
  switch (world_.below(6)) {
    case 0:
      if (faults_.nodes_crash) drop(victim, false);
      break;
    case 1:
      if (faults_.nodes_vanish) drop(victim, true);
      break;
    case 2:
      if (faults_.nodes_come && agents_.size() < 12) add_node(fmt::format("node{}", names_++));
      break;
    case 3:
      if (faults_.nodes_leave) victim.node->signal(SIGTERM);
      break;
    case 4:
      if (faults_.cancelled && world_.one_in(4)) victim.node->signal(SIGINT);
      break;
    default:
      break;
  }
}

}  // namespace ddprun::sim
