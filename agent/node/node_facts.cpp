#include "agent/node/node_facts.hpp"

#include <algorithm>

namespace ddprun::agent {

Leftovers::Step Leftovers::end(Step step) {
  phase_ = step == Step::kill ? Phase::killing : Phase::over;
  deadline_.reset();
  return step;
}

Leftovers::Step Leftovers::begin(bool any, std::optional<Clock::duration> patience,
                                 Clock::time_point now) {
  if (begun()) return Step::nothing;
  if (!any) return end(Step::over);
  if (patience && *patience <= Clock::duration::zero()) return end(Step::kill);
  phase_ = Phase::settling;
  patience_ = patience;
  deadline_ = now + kSettle;
  return Step::nothing;
}

Leftovers::Step Leftovers::gone() { return waiting() ? end(Step::over) : Step::nothing; }

Leftovers::Step Leftovers::kill_now() { return waiting() ? end(Step::kill) : Step::nothing; }

void Leftovers::end_patience(Clock::time_point now) {
  if (!waiting()) return;
  patience_.reset();
  deadline_ = std::min(*deadline_, now + kSettle);
}

void Leftovers::killed() {
  if (killing()) phase_ = Phase::over;
}

Leftovers::Step Leftovers::deadline_passed(Clock::time_point now) {
  if (!deadline_ || now < *deadline_) return Step::nothing;
  if (phase_ == Phase::terminated || !patience_) return end(Step::kill);
  phase_ = Phase::terminated;
  deadline_ = now + *patience_;
  return Step::terminate;
}

using namespace std::chrono_literals;

namespace {

constexpr auto kKillLimitLeast = 200ms;
// For the last lines to reach a slow reader, and what the warden waits beyond our own limits.
constexpr auto kEndMargin = 5s;

}  // namespace

proto::WorkerFailed NodeRound::failure_of(int local_rank) const {
  const WorkerRecord& worker = group.workers()[static_cast<std::size_t>(local_rank)];
  proto::WorkerFailed failure;
  failure.round = round.number;
  failure.local_rank = local_rank;
  failure.pid = worker.pid;
  failure.exit = *worker.exit;
  failure.ran_for = worker.ran_for;
  if (worker.pid > 0) failure.at = worker.ended_at - started_at;
  failure.error = worker.error;
  return failure;
}

proto::WorkerFailed NodeRound::failure_of_hang(Clock::time_point now) const {
  const WorkerRecord& worker = group.workers()[static_cast<std::size_t>(hang->local_rank)];
  proto::WorkerFailed failure;
  failure.round = round.number;
  failure.local_rank = hang->local_rank;
  failure.pid = worker.pid;
  failure.ran_for = now - worker.started_at;
  failure.at = now - started_at;
  failure.hang = hang->message;
  return failure;
}

proto::WorkerFailed NodeRound::failure_of_leaver(int local_rank, Clock::time_point now) const {
  const WorkerRecord& worker = group.workers()[static_cast<std::size_t>(local_rank)];
  proto::WorkerFailed failure;
  failure.round = round.number;
  failure.local_rank = local_rank;
  failure.pid = worker.pid;
  failure.ran_for = now - worker.started_at;
  failure.at = now - started_at;
  failure.hang = kLostAnother;
  return failure;
}

bool NodeRound::has_failures() const {
  const auto& workers = group.workers();
  return hang || std::any_of(workers.begin(), workers.end(), [](const WorkerRecord& worker) {
           return !worker.error.empty() || (worker.exit && !worker.exit->success());
         });
}

int NodeRound::running() const {
  const auto& workers = group.workers();
  return static_cast<int>(std::count_if(workers.begin(), workers.end(), [](const auto& worker) {
    return worker.running() && !worker.waits();
  }));
}

std::vector<proto::KeptWorker> NodeRound::kept() const {
  std::vector<proto::KeptWorker> kept;
  int local_rank = 0;
  for (const WorkerRecord& worker : group.workers()) {
    if (worker.waits() && group.stopping()) kept.push_back({local_rank, round.number, worker.step});
    ++local_rank;
  }
  return kept;
}

std::optional<Clock::duration> NodeRound::leftovers_patience(Clock::duration grace_period,
                                                             Clock::time_point now) const {
  // The user's second signal has come, or the grace period is over.
  if (stop && (stop->kill || group.killed())) return Clock::duration::zero();
  if (patience_ends) return *patience_ends - now;
  if (!stop) return grace_period;
  return std::nullopt;
}

std::chrono::milliseconds NodeFacts::end_limit() const {
  const auto own = config.stop.grace_period + config.stop.kill_timeout + kEndMargin;
  if (!config.rendezvous) return own;
  std::chrono::nanoseconds others = 2 * config.rendezvous->lease;
  if (!leave.signal) others += config.rendezvous->lost_timeout;
  return own + std::chrono::ceil<std::chrono::milliseconds>(others);
}

Clock::duration NodeFacts::kill_limit(Clock::time_point now) const {
  const Clock::duration limit =
      round && round->kill_deadline ? *round->kill_deadline - now : config.stop.kill_timeout;
  return std::max<Clock::duration>(limit, kKillLimitLeast);
}

proto::Join NodeFacts::join() const {
  proto::Join join;
  join.local_world_size = static_cast<int>(config.workers.size());
  join.role = config.node.role;
  join.node_name = config.node.name;
  join.boot_id = config.node.boot_id;
  join.settings = config.job;
  join.store_addr = prepared->store_addr;
  join.store_port = prepared->store_port;
  join.store_clients_max = prepared->store_clients_max;
  join.wants_report = config.report.wanted;
  join.checks_first = config.checks.preflight.has_value();
  join.knows_kept = true;
  if (round) join.kept = round->kept();
  if (config.rendezvous) {
    join.requested_group_rank = config.rendezvous->node_rank;
    join.insists_on_rank = config.rendezvous->insists_on_rank;
  }
  return join;
}

std::optional<Clock::time_point> NodeFacts::deadline() const {
  if (!round || state == NodeState::over) return std::nullopt;
  std::optional<Clock::time_point> next;
  // While leftovers of a success are waited for, it is their turn.
  const bool tells =
      state == NodeState::running || (state == NodeState::done && config.rendezvous.has_value());
  for (const auto& one : {round->group.deadline(), round->leftovers.deadline(), round->countdown_at,
                          round->kept_until, tells ? round->uneven_at : std::nullopt}) {
    if (one && (!next || *one < *next)) next = one;
  }
  return next;
}

}  // namespace ddprun::agent
