// A node waits for a round, starts it and watches it.
#include "agent/control/node_machine.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "base/describe.hpp"

namespace ddprun::agent {

using namespace std::chrono_literals;

namespace {

// One request may reach us twice: Ctrl-C from the terminal and from a wrapper, SIGTERM and the
// SIGHUP that systemd can send behind it. Only what comes later is impatience.
constexpr auto kRepeatedWithin = 100ms;

}  // namespace

void NodeMachine::ignore(Context&) {}

std::string NodeMachine::grace_period() const {
  return fmt::format("{} s", static_cast<double>(config_.stop.grace_period.count()) / 1000.0);
}

// ---- signals ----

/// Whatever the state is: a job that is paused goes through its states as any other.
bool NodeMachine::pause_or_resume(const JobSignal& signal, NodeActions& actions) {
  if (signal.signal == SIGTSTP) {
    paused_ = true;
    actions.push_back(PauseJob{});
  } else if (signal.signal == SIGCONT) {
    actions.push_back(ResumeJob{std::exchange(paused_, false)});
  } else {
    return false;
  }
  return true;
}

bool NodeMachine::is_repeated(const JobSignal& signal) const {
  return last_signal_ && signal.at - last_signal_->at < kRepeatedWithin;
}

void NodeMachine::leave(Context& context) {
  leave_by(context, std::get<JobSignal>(context.event).signal);
}

void NodeMachine::leave_by(Context& context, int signal) {
  leaving_ = signal;
  if (round_ && !round_->group.ended()) {
    const std::string name = signal_name(signal);
    context.act(Notice{fmt::format(
        "{}: stopping the workers; SIGKILL follows after {}, or at once with a second {}", name,
        grace_period(), name)});
    if (round_->group.deadline()) round_->countdown_at = context.now + kCountDownEvery;
  }
  // SIGTERM takes this node away, as its scheduler means it; the others are a person's wish to end
  // the job.
  context.act(Send{proto::Leave{signal, "", signal != SIGTERM, has_rendezvous_}});
  if (!config_.rendezvous) return;
  context.act(EndWithin{end_limit()});
  if (!round_ || round_->group.ended()) {
    const std::string name = signal_name(signal);
    const bool ends_job = has_rendezvous_ || (signal != SIGTERM && !is_spare_);
    // Where the workers have succeeded, theirs may have been the last ones.
    const bool may_be_over = state_ == NodeState::done;
    context.act(Notice{fmt::format("{}: {}{}; a second {} does not wait for the other nodes", name,
                                   ends_job ? "ending the job on all nodes" : "leaving the job",
                                   may_be_over ? ", unless it has succeeded" : "", name)});
  }
}

/// Nothing of this node is left, and the user does not wait for the others.
void NodeMachine::leave_now(Context& context) {
  if (!config_.rendezvous) return;
  const bool reported = state_ == NodeState::ending;
  const int signal = std::get<JobSignal>(context.event).signal;
  state_ = NodeState::over;
  end_job(context, proto::outcome_of(proto::Leave{signal, "", false}), round_ && !reported);
}

/// No round that may be on its way is taken part in.
void NodeMachine::leave_waiting(Context& context) {
  stop_check(context);
  leave(context);
  state_ = NodeState::ending;
}

void NodeMachine::kill_workers(Context& context) {
  const int signal = std::get<JobSignal>(context.event).signal;
  const bool again = last_signal_ && last_signal_->signal == signal;
  context.act(Notice{
      fmt::format("{}{}: killing the workers now", signal_name(signal), again ? " again" : "")});
  const GroupActions group = round_->group.kill_now(context.now);
  if (group.signal != 0) context.act(SignalWorkers{group.signal});
  follow(context, group);
}

/// After a success only what the workers left is in the way, and the job stays a success.
void NodeMachine::kill_leftovers(Context& context) { take(context, round_->leftovers.kill_now()); }

/// A scheduler signals the workers, too, so they may have succeeded just before. First the core
/// hears of that: if they were the last ones, the job is a success. If not, this node takes no part
/// in a new round. Of several signals the first by which a person ends the job on all nodes counts,
/// else the first SIGTERM: the core has heard of none yet.
void NodeMachine::leave_once_clear(Context& context) {
  if (config_.rendezvous && leaves_once_clear_.value_or(SIGTERM) == SIGTERM)
    leaves_once_clear_ = std::get<JobSignal>(context.event).signal;
  kill_leftovers(context);
}

// ---- the start of a round ----

void NodeMachine::send_join(Context& context) {
  proto::Join join;
  join.local_world_size = static_cast<int>(config_.workers.size());
  join.role = config_.role;
  join.node_name = config_.node_name;
  join.boot_id = config_.boot_id;
  join.settings = config_.job;
  join.store_addr = prepared_->store_addr;
  join.store_port = prepared_->store_port;
  join.store_clients_max = prepared_->store_clients_max;
  join.wants_report = config_.wants_report;
  join.checks_first = config_.preflight.has_value();
  if (config_.rendezvous) {
    join.requested_group_rank = config_.rendezvous->node_rank;
    join.insists_on_rank = config_.rendezvous->insists_on_rank;
  }
  context.act(Send{std::move(join)});
}

void NodeMachine::join(Context& context) {
  auto& prepared = std::get<Prepared>(context.event);
  if (prepared.problem.empty()) {
    has_rendezvous_ = prepared.has_rendezvous;
    prepared_ = std::move(prepared);
    if (!awaits_gpus_) send_join(context);
  } else {
    context.act(Send{proto::Leave{0, prepared.problem}});
    state_ = NodeState::ending;
  }
}

void NodeMachine::keep_place(Context& context) {
  auto& prepared = std::get<Prepared>(context.event);
  if (prepared.problem.empty()) {
    has_rendezvous_ = prepared.has_rendezvous;
    prepared_ = std::move(prepared);
  } else {
    context.act(Send{proto::Leave{0, prepared.problem}});
    round_->stop->final = true;
  }
}

// ---- the check ----

void NodeMachine::check(Context& context) {
  const bool runs = check_.has_value();  // it was asked for by an earlier service
  check_ = std::get<proto::Check>(context.event).number;
  if (!runs) context.act(RunCheck{});
}

void NodeMachine::note_check(Context& context) {
  if (!check_) return;
  auto& ended = std::get<CheckEnded>(context.event);
  if (ended.passed)
    context.act(Notice{
        fmt::format("this node has passed its check (--preflight) in {}", describe(ended.took))});
  is_checked_ = is_checked_ || ended.passed;
  unsound_.reset();
  if (!ended.passed) unsound_ = ended.text;
  context.act(Send{proto::Checked{*check_, ended.passed, std::move(ended.text), has_rendezvous_}});
  check_.reset();
}

void NodeMachine::stop_check(Context& context) {
  if (check_) context.act(StopCheck{});
  check_.reset();
}

void NodeMachine::start(Context& context) {
  auto& round = std::get<proto::Round>(context.event);
  stop_check(context);
  if (config_.preflight && !is_checked_) {
    context.act(Send{proto::Leave{
        0, "the rendezvous is of an older version, which asks for no check (--preflight)"}});
    state_ = NodeState::ending;
    return;
  }
  announce_round(context, round);
  restart_count_ = round.restart_count;
  is_spare_ = false;
  shown_reason_.clear();
  prepared_.reset();
  const int workers = static_cast<int>(config_.workers.size());
  round_.emplace(std::move(round),
                 WorkerGroup(workers, config_.stop.grace_period, config_.stop.kill_timeout),
                 context.now);
  state_ = NodeState::starting;
  context.act(StartWorkers{});
}

void NodeMachine::note_started(Context& context) {
  const auto& started = std::get<WorkersStarted>(context.event).workers;
  for (std::size_t i = 0; i < started.size(); ++i) {
    const int local_rank = static_cast<int>(i);
    if (started[i].problem.empty()) {
      round_->group.started(local_rank, started[i].pid, started[i].at);
    } else {
      round_->group.not_started(local_rank, started[i].problem);
      report_failure(context, local_rank);
    }
  }
  if (paused_) context.act(SignalWorkers{SIGSTOP});
  context.act(Send{proto::Started{round_->round.number}});
  state_ = NodeState::running;
  if (round_->stop) begin_stop(context);
}

// ---- while workers run ----

/// The core stops the round for it.
void NodeMachine::leave_for_problem(Context& context) {
  context.act(Send{proto::Leave{0, std::get<CannotGoOn>(context.event).problem}});
}

void NodeMachine::note_exit(Context& context) {
  const auto& exited = std::get<WorkerExited>(context.event);
  const GroupActions group = round_->group.exited(exited.local_rank, exited.exit,
                                                  exited.at.value_or(context.now), exited.used);
  if (group.failed) {
    const bool first = round_->kept_back.empty();
    if (!keep_back(exited)) {
      report_kept_back(context);
      report_failure(context, exited.local_rank);
    } else {
      round_->kept_back.push_back(failure_of(exited.local_rank));
      if (first && exited.timed_out) context.act(LookAtSuspects{exited.local_rank});
      if (first && !exited.timed_out) round_->kept_until = context.now + kPeerEndsWithin;
    }
  } else if (round_->kept_until && exited.exit.success()) {
    report_kept_back(context);  // it is the peer
  }
  const auto& workers = round_->group.workers();
  const auto ended_well = std::count_if(workers.begin(), workers.end(), [](const auto& worker) {
    return worker.exit && worker.exit->success();
  });
  if (exited.exit.success() && ended_well == 1) round_->uneven_at = context.now + kUnevenAfter;
  follow(context, group);
}

/// A worker that has timed out waiting for its peers, or has lost one, is not the cause. Before the
/// others are stopped for it, their stacks may show which of them hangs, or one ends by itself.
/// Once one has timed out and gone, others may lose it.
bool NodeMachine::keep_back(const WorkerExited& exited) const {
  if (leaving_ || round_->group.ended()) return false;
  return exited.lost_a_peer || (round_->kept_back.empty() && exited.timed_out);
}

void NodeMachine::report_kept_back(Context& context) {
  round_->kept_until.reset();
  round_->failed = round_->failed || !round_->kept_back.empty();
  for (proto::WorkerFailed& failed : std::exchange(round_->kept_back, {}))
    context.act(Send{std::move(failed)});
}

proto::WorkerFailed NodeMachine::failure_of(int local_rank) const {
  const WorkerRecord& worker = round_->group.workers()[static_cast<std::size_t>(local_rank)];
  proto::WorkerFailed failed;
  failed.round = round_->round.number;
  failed.local_rank = local_rank;
  failed.pid = worker.pid;
  failed.exit = *worker.exit;
  failed.ran_for = worker.ran_for;
  if (worker.pid > 0) failed.at = worker.ended_at - round_->started_at;
  failed.error = worker.error;
  return failed;
}

void NodeMachine::report_failure(Context& context, int local_rank) {
  round_->failed = true;
  context.act(Send{failure_of(local_rank)});
}

/// It failed, though it runs: the core stops the round for it.
void NodeMachine::report_hang(Context& context) {
  const bool stop_is_near = round_->hang || round_->failed || leaving_;
  if (stop_is_near || round_->group.stopping()) return;
  round_->hang = std::move(std::get<FoundHang>(context.event));
  const FoundHang& hang = *round_->hang;
  const auto& worker = round_->group.workers()[static_cast<std::size_t>(hang.local_rank)];
  proto::WorkerFailed failed;
  failed.round = round_->round.number;
  failed.local_rank = hang.local_rank;
  failed.pid = worker.pid;
  failed.ran_for = context.now - worker.started_at;
  failed.at = context.now - round_->started_at;
  failed.hang = hang.message;
  context.act(Send{std::move(failed)});
}

}  // namespace ddprun::agent
