// The nodes of a simulated job, and its course.
#include "tests/sim/sim_job.hpp"

#include <utility>

#include <fmt/format.h>

namespace ddprun::sim {

using namespace std::chrono_literals;
using proto::Finished;

namespace {

constexpr Duration kMuchTooLate = 2h;
/// After so long the last fault is over by itself.
constexpr Duration kFaultsLast = 3min;
constexpr const char* kOtherSecret = "open sesam";

}  // namespace

SimJob::SimJob(std::uint64_t seed, Duration faults_for)
    : world_(seed),
      faults_(draw_faults(world_, seed)),
      faults_for_(faults_for),
      plan_(draw_plan(world_, faults_, faults_for)),
      began_(world_.now()),
      service_(make_service()),
      cluster_(make_cluster()),
      rendezvous_(cluster_ ? static_cast<SimRendezvous&>(*cluster_) : *service_) {
  history_.max_nodes = plan_.job.max_nodes;
  history_.was_mild = faults_.are_mild;
  history_.was_over_etcd = faults_.over_etcd;
}

ServicePlan SimJob::service_plan() const {
  return {!faults_.service_has_no_journal, plan_.secret, plan_.lease, plan_.snapshots,
          plan_.unread_max};
}

std::unique_ptr<SimService> SimJob::make_service() {
  if (faults_.over_etcd) return nullptr;
  return std::make_unique<SimService>(world_, service_plan(), [this] { see_service(); });
}

std::unique_ptr<SimCluster> SimJob::make_cluster() {
  if (!faults_.over_etcd) return nullptr;
  const SimCluster::ClusterPlan plan{2 + static_cast<int>(world_.below(2)),
                                     faults_.clocks_differ ? 10'000 : 50};
  auto cluster =
      std::make_unique<SimCluster>(world_, service_plan(), plan, [this] { see_service(); });
  if (faults_.etcd_clocks_are_wrong) cluster->etcd().set_clocks_wrong();
  return cluster;
}

/// Several rdzvd go on for ever.
bool SimJob::is_all_over() { return cluster_ && history_.outcome && alive().empty(); }

History SimJob::run() {
  for (int i = 0; i < plan_.job.max_nodes; ++i) {
    Host& host = new_host();
    if (plan_.ranks != Ranks::none) host.node_rank = i;
    world_.after(world_.up_to(i == 0 ? 1ms : 3s), [this, &host] {
      if (!history_.outcome) add_node(host);
    });
  }
  world_.after(world_.up_to(10s), [this] { faults_.are_mild ? do_mild_harm() : do_harm(); });
  world_.after(faults_for_, [this] { harm_ = false; });
  world_.after(plan_.heals_after.value_or(faults_for_ + kFaultsLast), [this] { heal(); });
  while (world_.step(began_ + faults_for_ + kMuchTooLate)) {
    if (!history_.violations.empty() || is_all_over()) break;
    if (history_.outcome && history_.lasted == 0s) history_.lasted = world_.now() - began_;
  }
  if (history_.violations.empty()) check_end();
  for (const SimProcess* place : rendezvous_.places())
    if (place->connections_ended_for_unread() > 0) happened("unread output");
  if (cluster_) {
    history_.leaders = cluster_->leaders();
    if (cluster_->untold() > 0) happened("write found by the next leader");
  }
  history_.rounds = static_cast<int>(rounds_.size());
  history_.restarts = last_restart_count_;
  history_.hash = world_.hash();
  return history_;
}

void SimJob::require(bool holds, const std::string& what) {
  if (!holds) history_.violations.push_back(what);
}

// ---- nodes and their way to the core ----

SimJob::Host& SimJob::new_host() {
  const std::size_t number = hosts_.size();
  Host& host = hosts_.emplace_back();
  host.name = fmt::format("node{}", number);
  host.addr = fmt::format("10.0.0.{}", 1 + number);
  host.workers = 1 + static_cast<int>(world_.below(3));
  host.is_forwarded = faults_.has_forwarders && world_.one_in(2);
  draw_clock(host, false);
  return host;
}

/// Machines are started at other times. Their clocks lose or gain 50 millionths at most, unless
/// something is wrong with them.
void SimJob::draw_clock(Host& host, bool is_booted) {
  const std::int64_t most = faults_.clocks_differ ? 10'000 : 50;
  const auto ppm =
      static_cast<std::int64_t>(world_.below(static_cast<std::uint64_t>(2 * most + 1)));
  const Duration ahead = is_booted ? world_.up_to(10s) - world_.now().time_since_epoch()
                                   : world_.up_to(std::chrono::hours(1000));
  host.clock.emplace(world_, ahead, ppm - most);
  ++host.boots;
}

agent::AgentConfig SimJob::config_of(const Host& host, Stranger stranger) {
  agent::AgentConfig config;
  config.node.name = host.name;
  config.node.boot_id = fmt::format("{}/{}", host.addr, host.boots);
  config.job = plan_.job;
  if (stranger == Stranger::other_nnodes) ++config.job.max_nodes;
  if (stranger == Stranger::other_settings) config.job.last_call = 100ms;
  config.stop.grace_period = plan_.grace_period;
  config.stop.kill_timeout = 5s;
  config.workers.resize(static_cast<std::size_t>(host.workers));
  if (faults_.nodes_are_checked) config.checks.preflight.emplace();
  agent::RendezvousSettings& rendezvous = config.rendezvous.emplace();
  rendezvous.node_rank = host.node_rank;
  rendezvous.insists_on_rank = plan_.ranks == Ranks::insisted;
  rendezvous.lease = plan_.lease;
  rendezvous.lost_timeout = plan_.lost_timeout;
  return config;
}

SimJob::Agent& SimJob::add_node(Host& host, Stranger stranger) {
  const proto::AgentId id = fmt::format("{}#{}", host.name, agents_.size());
  const auto store_port = static_cast<std::uint16_t>(1 + agents_.size());
  Agent& agent = agents_[id];
  agent.id = id;
  agent.host = &host;
  agent.stranger = stranger;
  const HostClock clock = *host.clock;
  agent.node = std::make_unique<SimNode>(
      world_, config_of(host, stranger), store_port, faults_.workers_go_on,
      SimNode::Surroundings{
          [&agent](proto::AgentMessage message) { agent.link->submit(std::move(message)); },
          [&agent](proto::AgentMessage message, Clock::time_point round_began) {
            agent.link->submit(std::move(message), round_began);
          },
          [clock] { return clock.now(); },
          [clock](Clock::time_point local) { return clock.in_world(local); },
          [this] { return draw_fate(); }, [this] { return draw_check(); },
          [this, &agent](bool passed) { check_ended(agent, passed); },
          [this, &agent] { workers_started(agent); },
          [this, &agent](int local_rank, bool victim) { worker_failed(agent, local_rank, victim); },
          [this, &agent](const Finished& finished) { over(agent, finished); }});
  rdzv::SessionSettings session;
  session.agent = id;
  session.service = "service:29400";
  session.lease = plan_.leases_differ && world_.one_in(2) ? plan_.lease / 2 : plan_.lease;
  session.join_timeout = plan_.job.join_timeout;
  session.lost_timeout = plan_.lost_timeout;
  session.seed = static_cast<std::uint32_t>(world_.below(1U << 31));
  LinkPlan link{host.addr, plan_.secret, host.is_forwarded, plan_.delay_most, 0s};
  if (faults_.links_hiccup && !healed_) link.hiccup_most = plan_.hiccup_most;
  if (stranger == Stranger::other_secret) link.secret = kOtherSecret;
  if (stranger == Stranger::no_secret) link.secret.clear();
  agent.link = std::make_unique<SimLink>(
      world_, clock, rendezvous_.places(), std::move(link), session,
      [this, &agent](proto::MembershipMessage message) {
        if (const auto* planned = std::get_if<proto::RestartPlanned>(&message))
          planned_until_ = std::max(planned_until_, world_.now() + planned->delay);
        if (agent.node->alive()) agent.node->take(std::move(message));
      },
      [this, &agent] {
        if (agent.node->live_workers() > 0) drop(agent, false);  // as its warden does
      });
  agent.node->begin();
  return agent;
}

/// Another agent is started there, as by the scheduler of the cluster.
void SimJob::come_back(Host& host, Duration within) {
  world_.after(world_.up_to(healed_ ? Duration(100ms) : within), [this, &host] {
    if (!history_.outcome) add_node(host);
  });
}

void SimJob::over(Agent& agent, const Finished& finished) {
  agent.told = finished;
  world_.note(agent.id + " ends: " + finished.reason);
  agent.link->end(false);
  check_told(agent);
  if (!healed_ || history_.outcome) return;
  disturbed();
  keep_enough_nodes();
}

/// The agent that has the session.
SimJob::Agent& SimJob::agent_of(const proto::AgentId& session) {
  return agents_.at(session.substr(0, session.find('/')));
}

std::vector<SimJob::Agent*> SimJob::alive() {
  std::vector<Agent*> alive;
  for (auto& [id, agent] : agents_)
    if (agent.node->alive()) alive.push_back(&agent);
  return alive;
}

// ---- workers that fail ----

void SimJob::worker_failed(Agent& agent, int local_rank, bool victim) {
  const proto::Round& round = agent.node->machine().round()->round;
  if (!victim)
    rounds_[{round.epoch, round.number}].failed.emplace(WorkerId{agent.id, local_rank},
                                                        world_.now());
  disturbed();
  lose(agent);
}

void SimJob::lose(const Agent& agent) {
  for (auto& [id, other] : agents_)
    if (&other != &agent && other.node->alive()) other.node->lose_peer();
}

}  // namespace ddprun::sim
