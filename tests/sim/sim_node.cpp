#include "tests/sim/sim_node.hpp"

#include <algorithm>
#include <csignal>

namespace ddprun::sim {

using namespace std::chrono_literals;

namespace {

constexpr ExitStatus kSuccess{false, 0, false};
constexpr Duration kStartMost = 3ms;
constexpr Duration kStep = 50ms;  // of a worker
// After so long in a round, a worker has its state.
constexpr Duration kStateWithin = 20ms;

}  // namespace

SimNode::SimNode(World& world, agent::AgentConfig config, std::uint16_t store_port,
                 bool workers_go_on, Surroundings surroundings)
    : world_(world),
      surroundings_(std::move(surroundings)),
      config_(std::move(config)),
      machine_(config_),
      store_port_(store_port),
      workers_go_on_(workers_go_on) {
  config_.store.master_addr = config_.node.name;
  workers_.resize(config_.workers.size());
}

void SimNode::begin() {
  agent::Prepare prepare;
  obey(prepare);
}

void SimNode::take(proto::MembershipMessage message) {
  std::visit([this](auto& specific) { on(std::move(specific)); }, message);
}

void SimNode::signal(int signal) {
  on(agent::JobSignal{signal, surroundings_.now().time_since_epoch()});
}

void SimNode::ask_restart() {
  if (machine_.state() == agent::NodeState::running) surroundings_.send(proto::AskRestart{});
}

void SimNode::lose_peer() {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (!workers_[i].runs || world_.one_in(3)) continue;
    later(world_.up_to(300ms), [this, i] {
      const int local_rank = static_cast<int>(i);
      can_leave(local_rank) && world_.one_in(2) ? leave(local_rank) : fail(local_rank, true);
    });
  }
}

void SimNode::crash(Duration workers_within) {
  alive_ = false;
  *exists_ = false;
  for (Played& worker : workers_) {
    if (workers_within == 0ns) {
      worker.runs = false;
    } else {
      world_.after(world_.up_to(workers_within), [&worker] { worker.runs = false; });
    }
  }
}

int SimNode::live_workers() const {
  int count = 0;
  for (const Played& worker : workers_) count += worker.runs && !worker.waits ? 1 : 0;
  return count;
}

std::optional<std::uint64_t> SimNode::state_of(int local_rank) const {
  const Played& worker = workers_[static_cast<std::size_t>(local_rank)];
  return worker.runs ? worker.step : std::nullopt;
}

/// The steps of a worker that leaves the machine's round; none, if it has not had the time to get a
/// state.
std::optional<std::uint64_t> SimNode::step_now() const {
  const agent::NodeRound& round = *machine_.round();
  const Duration lasted = surroundings_.now() - round.started_at;
  if (lasted < kStateWithin) return std::nullopt;
  return round.round.source_step + static_cast<std::uint64_t>(lasted / kStep);
}

void SimNode::on(agent::NodeEvent event) {
  events_.push_back(std::move(event));
  go_on();
}

void SimNode::go_on() {
  if (frozen_ || suspended_ || std::exchange(busy_, true)) return;
  for (; !events_.empty() && alive_; events_.pop_front()) {
    for (agent::NodeAction& action : machine_.on(std::move(events_.front()), surroundings_.now()))
      std::visit([this](auto& specific) { obey(specific); }, action);
  }
  busy_ = false;
  follow_deadline();
}

void SimNode::freeze() { frozen_ = true; }

void SimNode::thaw() {
  frozen_ = false;
  if (alive_) go_on();
}

void SimNode::resume() {
  suspended_ = false;
  if (alive_) go_on();
  for (const auto& what : std::exchange(held_, {})) what();
}

void SimNode::follow_deadline() {
  if (deadline_ == machine_.deadline()) return;
  deadline_ = machine_.deadline();
  if (!deadline_) return;
  world_.at(surroundings_.in_world(*deadline_), [this, exists = exists_, when = *deadline_] {
    if (!*exists || deadline_ != when) return;
    deadline_.reset();
    on(agent::TimePassed{});
  });
}

/// Unless the node is gone by then, or its workers were started anew.
void SimNode::later(Duration time, std::function<void()> what) {
  const auto unless_gone = [this, exists = exists_, started = started_, what = std::move(what)] {
    if (*exists && started == started_) what();
  };
  world_.after(time, [this, exists = exists_, unless_gone] {
    if (*exists && suspended_) {
      held_.emplace_back(unless_gone);
    } else {
      unless_gone();
    }
  });
}

void SimNode::exit(int local_rank, ExitStatus status) {
  Played& worker = workers_[static_cast<std::size_t>(local_rank)];
  if (!worker.runs) return;
  worker.runs = false;
  on(agent::WorkerExited{local_rank, status, worker.victim, false});
}

void SimNode::fail(int local_rank, bool victim) {
  Played& worker = workers_[static_cast<std::size_t>(local_rank)];
  if (!worker.runs) return;
  worker.failed = true;
  worker.victim = victim;
  worker.failed_at = surroundings_.now();
  surroundings_.worker_failed(local_rank, victim);
  exit(local_rank, {false, 1, false});
}

void SimNode::kill(int signal) {
  if (signal == SIGCONT || signal == SIGSTOP) return;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const agent::WorkerRecord& worker = machine_.round()->group.workers()[i];
    if (!worker.running() || worker.gets_signals()) kill(static_cast<int>(i), signal);
  }
}

void SimNode::kill(int local_rank, int signal) {
  if (workers_[static_cast<std::size_t>(local_rank)].stubborn && signal != SIGKILL) return;
  later(world_.up_to(signal == SIGKILL ? 5ms : 500ms), [this, local_rank, signal] {
    exit(local_rank, {true, signal, false});
  });
}

/// Some have got a step further than others when they are interrupted, and some end while they
/// wait.
void SimNode::wait_for_round(int local_rank) {
  Played& worker = workers_[static_cast<std::size_t>(local_rank)];
  if (worker.stubborn) return;
  worker.step = step_now();
  if (worker.step && world_.one_in(3)) ++*worker.step;
  later(world_.up_to(50ms), [this, local_rank] {
    Played& waiting = workers_[static_cast<std::size_t>(local_rank)];
    waiting.waits = true;
    if (waiting.runs) on(agent::WorkerWaits{local_rank, waiting.step});
  });
  if (!world_.one_in(10)) return;
  later(world_.up_to(500ms), [this, local_rank] { exit(local_rank, {true, SIGKILL, false}); });
}

/// Whether it could wait for another round, unasked.
bool SimNode::can_leave(int local_rank) const {
  const Played& worker = workers_[static_cast<std::size_t>(local_rank)];
  return worker.runs && !worker.waits && machine_.state() == agent::NodeState::running &&
         machine_.round()->group.workers()[static_cast<std::size_t>(local_rank)].keeping ==
             agent::Keeping::possible;
}

/// It has lost another worker. Some say so twice, and some end their connection soon.
void SimNode::leave(int local_rank) {
  Played& worker = workers_[static_cast<std::size_t>(local_rank)];
  worker.step = step_now();
  worker.waits = true;
  const agent::WorkerWaits waits{local_rank, worker.step};
  on(waits);
  if (world_.one_in(4)) on(waits);
  if (!world_.one_in(10)) return;
  later(world_.up_to(100ms), [this, local_rank] { exit(local_rank, {true, SIGKILL, false}); });
}

void SimNode::obey(agent::Prepare&) {
  world_.after(world_.up_to(2ms), [this, exists = exists_] {
    if (*exists) on(agent::Prepared{"10.0.0.1", store_port_, 0, false, ""});
  });
}

void SimNode::obey(agent::RunCheck&) {
  const CheckFate fate = surroundings_.draw_check();
  later(fate.after, [this, number = ++checks_, fate] {
    if (number != checks_) return;
    surroundings_.check_ended(fate.passes);
    on(agent::CheckEnded{fate.passes, fate.passes ? "" : "exited with code 1", fate.after});
  });
}

void SimNode::obey(agent::StopCheck&) { ++checks_; }

void SimNode::obey(agent::Send& action) {
  if (std::holds_alternative<proto::WorkerFailed>(action.message))
    return surroundings_.send_of_round(std::move(action.message), machine_.round()->started_at);
  surroundings_.send(std::move(action.message));
}

void SimNode::obey(agent::StartWorkers& action) {
  ++started_;
  has_leftovers_ = world_.one_in(10);
  for (const auto& dropped : action.dropped)
    workers_[static_cast<std::size_t>(dropped.local_rank)].runs = false;
  const agent::NodeRound& round = *machine_.round();
  agent::WorkersStarted started;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const int rank = static_cast<int>(i);
    const auto& keep = round.round.keep;
    const bool goes_on = std::find(keep.begin(), keep.end(), rank) != keep.end();
    const int kept = round.group.workers()[i].pid;
    if (!goes_on && workers_[i].runs) broken_ = "a local rank has one worker";
    if (goes_on && kept > 0 && !workers_[i].runs) broken_ = "a worker that goes on runs";
    if (!goes_on) workers_[i] = {.runs = true, .stubborn = world_.one_in(20)};
    workers_[i].failed = workers_[i].waits = false;
    started.workers.push_back(
        {goes_on ? kept : static_cast<int>(100 + i), surroundings_.now(), ""});
    if (workers_[i].runs) plan_fate(rank);
    if (!workers_go_on_ || goes_on || world_.one_in(8)) continue;
    later(2 * kStartMost, [this, rank] { on(agent::WorkerCanWait{rank, true}); });
  }
  surroundings_.workers_started();
  later(world_.up_to(kStartMost), [this, started] { on(started); });
}

void SimNode::plan_fate(int local_rank) {
  Fate fate = surroundings_.draw_fate();
  fate.after = std::max<Duration>(fate.after, 2 * kStartMost);  // ends are seen after the start
  if (fate.kind == Fate::Kind::succeeds)
    later(fate.after, [this, local_rank] { exit(local_rank, kSuccess); });
  else if (fate.kind == Fate::Kind::fails)
    later(fate.after, [this, local_rank] { fail(local_rank, false); });
  else
    later(fate.after, [this, local_rank] {
      if (!workers_[static_cast<std::size_t>(local_rank)].runs) return;
      agent::FoundHang hang;
      hang.local_rank = local_rank;
      hang.message = "silent for 60 s";
      on(hang);
    });
}

void SimNode::obey(agent::SignalWorkers& action) { kill(action.signal); }

void SimNode::obey(agent::StopWorkers& action) {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const agent::WorkerRecord& worker = machine_.round()->group.workers()[i];
    if (worker.keeping == agent::Keeping::asked) {
      wait_for_round(static_cast<int>(i));
    } else if (!worker.waits()) {
      kill(static_cast<int>(i), action.signal);
    }
  }
  on(agent::ConditionsSeen{std::vector<machine::ChildCondition>(workers_.size())});
}

void SimNode::obey(agent::LookAtSuspects&) { on(agent::SuspectsSeen{}); }
void SimNode::obey(agent::LookForLeftovers&) { on(agent::LeftoversSeen{has_leftovers_}); }
void SimNode::obey(agent::KillLeftovers&) {
  has_leftovers_ = false;
  on(agent::LeftoversSeen{false});
}

void SimNode::obey(agent::ReadOutput&) { on(agent::OutputRead{}); }

void SimNode::obey(agent::ReportRound&) {
  const agent::NodeRound& round = *machine_.round();
  proto::Stopped stopped;
  stopped.round = round.round.number;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (!workers_[i].failed) continue;
    proto::WorkerFailure failure;
    failure.local_rank = static_cast<int>(i);
    failure.exit = {false, 1, false};
    failure.ran_for = failure.ended_at = failure.evidence.at =
        workers_[i].failed_at - round.started_at;
    failure.evidence.kind = proto::EvidenceKind::exception_line;
    failure.evidence.text = workers_[i].victim ? "Connection closed by peer" : "ValueError";
    if (workers_[i].victim) failure.evidence.victim_phrase = "connection closed by peer";
    stopped.failures.push_back(std::move(failure));
  }
  surroundings_.send_of_round(std::move(stopped), round.started_at);
}

void SimNode::obey(agent::EndJob& action) {
  crash();
  surroundings_.over(action.finished);
}

}  // namespace ddprun::sim
