#include "tests/sim/sim_job.hpp"

#include <fmt/format.h>
#include <algorithm>

namespace ddprun::sim {

using namespace std::chrono_literals;
using proto::Finished;

namespace {

/// Of which agent a session is.
proto::AgentId agent_of(const proto::AgentId& session) {
  return session.substr(0, session.find('/'));
}

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

/// Machines are started at other times. Their clocks lose or gain 50 millionths at most, unless
/// something is wrong with them.
HostClock draw_clock(World& world, bool differs) {
  const std::int64_t most = differs ? 10'000 : 50;
  const auto ppm = static_cast<std::int64_t>(world.below(static_cast<std::uint64_t>(2 * most + 1)));
  return {world, world.up_to(std::chrono::hours(1000)), ppm - most};
}

}  // namespace

SimJob::SimJob(std::uint64_t seed)
    : world_(seed),
      faults_(draw_faults(world_)),
      settings_(draw_settings(world_)),
      lease_(world_.one_in(3) ? 3s : 15s),
      service_(world_, !faults_.service_has_no_journal, [this] { see_service(); }),
      work_(1s + (world_.one_in(3) ? world_.up_to(30s) : world_.up_to(5min))),
      bad_batch_(world_.up_to(std::min<Duration>(work_, 30s))) {}

History SimJob::run(Duration faults_for) {
  for (int i = 0; i < settings_.max_nodes; ++i) {
    world_.after(world_.up_to(i == 0 ? 1ms : 3s), [this] {
      if (!history_.outcome) add_node(fmt::format("node{}", names_++));
    });
  }
  const auto began = world_.now();
  world_.after(world_.up_to(10s), [this] { do_harm(); });
  world_.after(faults_for, [this] { harm_ = false; });
  while (world_.step(began + faults_for + kMuchTooLate)) {
    if (!history_.violations.empty()) break;
    if (history_.outcome && history_.lasted == 0s) history_.lasted = world_.now() - began;
  }
  // A service that has forgotten the job need not learn that its last nodes have left.
  require(history_.outcome || history_.cells.empty() || faults_.service_forgets,
          "the job has an outcome");
  for (const auto& [id, agent] : agents_)
    require(!agent.node->alive() || faults_.service_has_no_journal,
            fmt::format("{} was told the end", id));
  // One that has forgotten a round before a node heard of it forms another one of its number.
  if (!faults_.service_forgets && history_.outcome &&
      history_.outcome->outcome == Finished::Outcome::succeeded) {
    const RoundSeen& last = rounds_.rbegin()->second;
    require(last.done == last.nodes, "all nodes of the last round were done");
  }
  if (history_.outcome && history_.outcome->verdict && !rounds_.empty())
    check_culprit(rounds_.rbegin()->second, history_.outcome->verdict->culprit);
  // The death of a service that keeps its journal is no fault: nobody notices it.
  const bool no_faults = !faults_.workers_fail && !faults_.workers_hang && !faults_.nodes_crash &&
                         !faults_.nodes_vanish && !faults_.nodes_leave && !faults_.cancelled &&
                         !faults_.agents_freeze && !faults_.hosts_sleep && !faults_.network_cut &&
                         !faults_.links_slow && !faults_.service_forgets;
  if (no_faults) {
    require(last_restart_count_ == 0, "no restart without a fault");
    require(history_.outcome && history_.outcome->outcome == Finished::Outcome::succeeded,
            "a job without faults succeeds");
  }
  history_.rounds = static_cast<int>(rounds_.size());
  history_.restarts = last_restart_count_;
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
  const HostClock clock = draw_clock(world_, faults_.clocks_differ);
  agent.node = std::make_unique<SimNode>(
      world_, name, 1 + static_cast<int>(world_.below(3)),
      static_cast<std::uint16_t>(agents_.size()), settings_,
      SimNode::Surroundings{
          [&agent](proto::AgentMessage message) { agent.link->submit(std::move(message)); },
          [clock] { return clock.now(); },
          [clock](Clock::time_point local) { return clock.in_world(local); },
          [&agent, clock](Clock::time_point origin) {
            return agent.link->session().job_time_of_origin(origin, clock.now());
          },
          [this] { return draw_fate(); }, [this, &agent] { workers_started(agent); },
          [this, &agent](int local_rank, bool victim) { worker_failed(agent, local_rank, victim); },
          [this, &agent](const Finished& finished) {
            agent.told = finished;
            world_.note(agent.id + " ends: " + finished.reason);
            agent.link->end(false);
          }});
  rdzv::SessionSettings session;
  session.agent = id;
  session.service = "service:29400";
  session.lease = lease_;
  session.seed = static_cast<std::uint32_t>(world_.below(1U << 31));
  agent.link = std::make_unique<SimLink>(
      world_, clock, service_, faults_.links_hiccup, session,
      [&agent](proto::MembershipMessage message) {
        if (agent.node->alive()) agent.node->take(std::move(message));
      },
      [this, &agent] {
        if (agent.node->live_workers() > 0) drop(agent, false);  // as its warden does
      });
  agent.node->begin();
  return agent;
}

/// After each event of the service.
void SimJob::see_service() {
  for (const rdzv::JobRecord& record : service_.take_records()) {
    if (const auto* said = std::get_if<rdzv::Said>(&record.event)) {
      history_.cells.emplace(static_cast<int>(state_), static_cast<int>(said->message.index()));
      if (const auto* done = std::get_if<proto::WorkersDone>(&said->message);
          done != nullptr && !rounds_.empty() && rounds_.rbegin()->first.second == done->round)
        ++rounds_.rbegin()->second.done;
      if (const auto* stopped = std::get_if<proto::Stopped>(&said->message);
          stopped != nullptr && stopped->round_began && !rounds_.empty())
        rounds_.rbegin()->second.uncertainties[agent_of(said->agent)] =
            stopped->round_began->uncertainty;
    } else if (std::holds_alternative<rdzv::SessionLost>(record.event)) {
      if (service_.membership() == nullptr) continue;  // nobody has joined yet
      history_.cells.emplace(static_cast<int>(state_), static_cast<int>(rdzv::EventKind::lost));
    } else if (std::holds_alternative<rdzv::DeadlinePassed>(record.event)) {
      history_.cells.emplace(static_cast<int>(state_), static_cast<int>(rdzv::EventKind::deadline));
    }
  }
  require(!service_.replay_differed(), "a journal brings back what was there");
  const rdzv::Membership* membership = service_.membership();
  if (membership == nullptr) return;
  state_ = membership->state();
  // A node that was started just when the job ended runs it again, from the beginning.
  if (history_.outcome) return;
  if (membership->has_formed()) see_formed(*membership);
  if (membership->outcome()) history_.outcome = membership->outcome();
  require(membership->restart_count() <= settings_.restart.max_restarts, "the budget holds");
  if (!membership->has_formed()) return;
  // What one that has forgotten must know is checked when its rounds form.
  require(faults_.service_forgets || membership->restart_count() >= last_restart_count_,
          "the restart count never falls");
  last_restart_count_ = membership->restart_count();
}

// ---- what must hold of rounds ----

/// What the service has been told of rounds. One that loses its memory can count on from what the
/// nodes tell that have joined since: others may be cut off, on their way back, or gone.
SimJob::Past SimJob::known_to_service() const {
  Past known;
  if (!faults_.service_forgets) {
    if (!rounds_.empty()) known.newest = rounds_.rbegin()->first;
    known.number = newest_started_;
    known.restart_count = last_restart_count_;
    return known;
  }
  for (const auto& [id, session] : service_.job()->sessions()) {
    if (session.node_name.empty() || !session.contact.connection) continue;
    const Past& past = agents_.at(agent_of(id)).past;
    known.newest = std::max(known.newest, past.newest);
    known.number = std::max(known.number, past.number);
    known.restart_count = std::max(known.restart_count, past.restart_count);
  }
  return known;
}

/// All messages of a round leave the core at one time: each rank is given once, all agree.
void SimJob::see_formed(const rdzv::Membership& membership) {
  const RoundId id{membership.epoch(), membership.next_round() - 1};
  if (rounds_.contains(id) || membership.state() != rdzv::JobState::running) return;
  const Past known = known_to_service();
  require(!known.newest || *known.newest < id, "rounds rise");
  require(!known.number || *known.number < id.second, "round numbers rise through the epochs");
  require(membership.restart_count() >= known.restart_count,
          "the restart count never falls through the epochs");
  for (const auto& [agent, session] : service_.job()->sessions()) {
    const auto current = membership.current(agent);
    const auto* round = current ? std::get_if<proto::Round>(&*current) : nullptr;
    if (round != nullptr) see_round(id, *round, agents_.at(agent_of(agent)).node->workers());
  }
  check_newest_round();
  if (harm_ && faults_.network_cut && faults_.workers_fail && world_.one_in(8)) miss_round();
}

void SimJob::see_round(const RoundId& id, const proto::Round& round, int workers) {
  RoundSeen& seen = rounds_[id];
  seen.formed_at = world_.now();
  require(round.epoch == id.first && round.number == id.second, "a round's nodes have its number");
  if (round.last_culprit && after_failure_.insert(id).second && rounds_.begin()->first != id)
    check_culprit(std::prev(rounds_.find(id))->second, *round.last_culprit);
  require(faults_.service_forgets ||
              static_cast<int>(after_failure_.size()) <= settings_.restart.max_restarts,
          "no more rounds after failures than the budget allows");
  seen.world_size = round.world_size;
  seen.nodes = round.group_world_size;
  seen.sizes.insert({round.world_size, round.group_world_size});
  seen.stores.insert(round.master_addr);
  seen.first_ranks[round.first_rank] += workers;
}

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
  // Each node offers a store of its own, so these tell rounds apart also if numbers begin anew.
  const auto group_of = [](const Agent& one) {
    const proto::Round& round = one.node->machine().round()->round;
    return std::pair(round.number, round.master_port);
  };
  const auto number = group_of(agent).first;
  world_.note(fmt::format("{} starts {}", agent.id, number));
  newest_started_ = std::max(newest_started_.value_or(number), number);
  const proto::Round& round = agent.node->machine().round()->round;
  agent.past = {RoundId{round.epoch, number}, number, round.restart_count};
  for (const auto& [id, other] : agents_) {
    if (!other.node->alive() || other.node->suspended() || other.node->live_workers() == 0)
      continue;
    require(group_of(other) == group_of(agent),
            fmt::format("{} has workers of another round than {}", id, agent.id));
  }
}

// ---- workers that fail ----

void SimJob::worker_failed(Agent& agent, int local_rank, bool victim) {
  const proto::Round& round = agent.node->machine().round()->round;
  if (!victim)
    rounds_[{round.epoch, round.number}].failed.emplace(WorkerId{agent.id, local_rank},
                                                        world_.now());
  lose(agent);
}

void SimJob::lose(const Agent& agent) {
  for (auto& [id, other] : agents_)
    if (&other != &agent && other.node->alive()) other.node->lose_peer();
}

/// Of workers that fail in the same way it is the one that was first, as exactly as clocks can
/// tell. What a lost node knew is lost with it.
void SimJob::check_culprit(const RoundSeen& round, const proto::FailedWorker& culprit) {
  constexpr Duration kClocksTell = 10ms;
  const bool can_tell = !faults_.clocks_differ && !faults_.service_forgets &&
                        harmed_until_ < round.formed_at && !round.failed.empty() &&
                        culprit.failure.evidence.kind == proto::EvidenceKind::exception_line;
  if (!can_tell) return;
  ++history_.culprits;
  const auto found = round.failed.find({agent_of(culprit.agent), culprit.failure.local_rank});
  if (found == round.failed.end())
    return require(false, "the culprit is no victim: " + culprit.agent);
  const auto uncertainty_of = [&](const proto::AgentId& agent) {
    const auto known = round.uncertainties.find(agent);
    return known == round.uncertainties.end() ? std::chrono::hours(1) : known->second;
  };
  const Duration uncertainty = kClocksTell + uncertainty_of(agent_of(culprit.agent));
  for (const auto& [worker, failed_at] : round.failed)
    require(found->second <= failed_at + uncertainty_of(worker.agent) + uncertainty,
            fmt::format("{} failed before {}", worker.agent, culprit.agent));
}

}  // namespace ddprun::sim
