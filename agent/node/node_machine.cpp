// A node waits for a round, starts it and watches it.
#include "agent/node/node_machine.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

#include "agent/node/node_answers.hpp"
#include "agent/node/node_notices.hpp"

namespace ddprun::agent::answers {

namespace {

/// Keeps the place for the next round, if there is one.
bool take_place(NodeTurn& turn, Prepared& prepared) {
  if (!prepared.problem.empty()) {
    turn.send(proto::Leave{0, prepared.problem});
    return false;
  }
  turn.node.has_rendezvous = prepared.has_rendezvous;
  turn.node.prepared = std::move(prepared);
  return true;
}

}  // namespace

// ---- the start of a round ----

void join(NodeTurn& turn, Prepared& prepared) {
  if (!take_place(turn, prepared)) {
    turn.node.state = NodeState::ending;
  } else if (!turn.node.awaits_gpus) {
    turn.send(turn.node.join());
  }
}

void keep_place(NodeTurn& turn, Prepared& prepared) {
  if (!take_place(turn, prepared)) turn.node.round->stop->final = true;
}

void join_again(NodeTurn& turn) {
  turn.node.awaits_gpus = false;
  if (turn.node.prepared) {
    turn.send(turn.node.join());
  } else {
    turn.act(Prepare{});
  }
}

namespace {

/// The group of the next round, with the workers of the last one that go on in it. Those that have
/// ended meanwhile failed it before it began.
WorkerGroup next_group(const NodeFacts& node, proto::Round& round, StartWorkers& start,
                       std::vector<NodeRound::EndedBefore>& ended) {
  const auto& settings = node.config.stop;
  WorkerGroup group(static_cast<int>(node.config.workers.size()), settings.grace_period,
                    settings.kill_timeout, round);
  const auto keep = std::exchange(round.keep, {});
  if (!node.round) return group;
  int local_rank = -1;
  for (const WorkerRecord& worker : node.round->group.workers()) {
    ++local_rank;
    const bool goes_on = std::find(keep.begin(), keep.end(), local_rank) != keep.end();
    if (worker.waits() && !goes_on) start.dropped.push_back({local_rank, worker.start});
    // A spare has killed its own, without what they had started.
    start.clears = start.clears ||
                   (!goes_on && (worker.keeping == Keeping::waits || node.round->group.killed()));
    if (!goes_on || !(worker.waits() || worker.exit)) continue;
    round.keep.push_back(local_rank);
    if (worker.waits()) group.keep(local_rank, worker);
    if (worker.exit) ended.push_back({local_rank, worker});
  }
  return group;
}

}  // namespace

void start(NodeTurn& turn, proto::Round& round) {
  NodeFacts& node = turn.node;
  stop_check(turn);
  if (node.config.checks.preflight && !node.check.has_passed) {
    turn.send(proto::Leave{
        0, "the rendezvous is of an older version, which asks for no check (--preflight)"});
    node.state = NodeState::ending;
    return;
  }
  if (const std::string line = why_round_line(node, round); !line.empty()) turn.notice(line);
  if (!node.round && shows_place(node.config, round)) turn.notice(place_line(node.config, round));
  node.restart_count = round.restart_count;
  node.is_spare = false;
  node.shown_reason.clear();
  node.prepared.reset();
  std::vector<NodeRound::EndedBefore> ended;
  StartWorkers start;
  WorkerGroup group = next_group(node, round, start, ended);
  node.round.emplace(std::move(round), std::move(group), turn.now);
  node.round->ended_before = std::move(ended);
  node.state = NodeState::starting;
  turn.act(std::move(start));
}

void note_started(NodeTurn& turn, const WorkersStarted& started) {
  NodeRound& round = *turn.node.round;
  for (std::size_t i = 0; i < started.workers.size(); ++i) {
    const StartedWorker& worker = started.workers[i];
    const int local_rank = static_cast<int>(i);
    if (worker.problem.empty()) {
      round.group.started(local_rank, worker.pid, worker.at);
    } else {
      round.group.not_started(local_rank, worker.problem);
      round.failed = true;
      turn.send(round.failure_of(local_rank));
    }
  }
  if (turn.node.is_paused) turn.act(SignalWorkers{SIGSTOP});
  turn.send(proto::Started{round.round.number});
  turn.node.state = NodeState::running;
  auto stop = std::exchange(round.stop, std::nullopt);
  for (const auto& [local_rank, worker] : std::exchange(round.ended_before, {})) {
    round.group.keep(local_rank, worker);
    round.group.started(local_rank, worker.pid, turn.now);
    note_exit(turn, {.local_rank = local_rank, .exit = *worker.exit, .used = worker.used});
    if (!worker.exit->success()) continue;
    round.failed = true;  // the others wait for it
    turn.send(round.failure_of(local_rank));
  }
  round.stop = std::move(stop);
  if (round.stop) begin_stop(turn);
}

/// A worker that goes on has ended before the others were started.
void note_early_exit(NodeTurn& turn, const WorkerExited& exited) {
  NodeRound& round = *turn.node.round;
  WorkerRecord worker = round.group.workers()[static_cast<std::size_t>(exited.local_rank)];
  worker.exit = exited.exit;
  worker.used = exited.used;
  round.group.forget(exited.local_rank);
  round.ended_before.push_back({exited.local_rank, std::move(worker)});
}

// ---- the core's news ----

void announce_restart(NodeTurn& turn, const proto::RestartPlanned& planned) {
  turn.node.restart_count = planned.restart_count;
  if (turn.node.round) turn.node.round->culprit = planned.culprit;
  turn.notice(planned_restart_line(planned));
}

void announce_wait(NodeTurn& turn, proto::Waiting& waiting) {
  NodeFacts& node = turn.node;
  node.is_spare = waiting.is_spare;
  if (waiting.is_spare) end_waiting_workers(turn);
  if (waiting.is_spare)
    return turn.notice(spare_line(waiting, node.config.run_id, !node.round.has_value()));
  if (waiting.reason.empty() || std::exchange(node.shown_reason, waiting.reason) == waiting.reason)
    waiting.reason.clear();
  turn.notice(waiting_line(waiting, node.config));
}

void pass_on(NodeTurn& turn, const proto::Remark& remark) { turn.notice(remark.text); }

// ---- the check ----

void check(NodeTurn& turn, const proto::Check& check) {
  const bool runs = turn.node.check.running.has_value();  // it was asked for by an earlier service
  turn.node.check.running = check.number;
  if (!runs) turn.act(RunCheck{});
}

void note_check(NodeTurn& turn, CheckEnded& ended) {
  NodeCheck& check = turn.node.check;
  if (!check.running) return;
  if (ended.passed) turn.notice(check_passed_line(ended));
  check.has_passed = check.has_passed || ended.passed;
  check.failure.reset();
  if (!ended.passed) check.failure = ended.text;
  turn.send(proto::Checked{*check.running, ended.passed, std::move(ended.text),
                           turn.node.has_rendezvous});
  check.running.reset();
}

void stop_check(NodeTurn& turn) {
  if (std::exchange(turn.node.check.running, std::nullopt)) turn.act(StopCheck{});
}

// ---- while workers run ----

/// The core stops the round for it.
void leave_for_problem(NodeTurn& turn, const CannotGoOn& cannot) {
  turn.send(proto::Leave{0, cannot.problem});
}

namespace {

/// A worker that has timed out waiting for its peers, or has lost one, is not the cause. Before the
/// others are stopped for it, their stacks may show which of them hangs, or one ends by itself.
/// Once one has timed out and gone, others may lose it.
bool is_kept_back(const NodeFacts& node, const WorkerExited& exited) {
  if (node.leave.signal || node.round->group.ended()) return false;
  return exited.lost_a_peer || (node.round->kept_back.empty() && exited.timed_out);
}

void keep_back(NodeTurn& turn, const WorkerExited& exited) {
  NodeRound& round = *turn.node.round;
  const bool first = round.kept_back.empty();
  round.kept_back.push_back(round.failure_of(exited.local_rank));
  if (first && exited.timed_out) turn.act(LookAtSuspects{exited.local_rank});
  if (first && !exited.timed_out) round.kept_until = turn.now + NodeMachine::kPeerEndsWithin;
}

}  // namespace

void note_exit(NodeTurn& turn, const WorkerExited& exited) {
  NodeRound& round = *turn.node.round;
  const GroupActions group =
      round.group.exited(exited.local_rank, exited.exit, exited.at.value_or(turn.now), exited.used);
  if (group.failed && is_kept_back(turn.node, exited)) {
    keep_back(turn, exited);
  } else if (group.failed) {
    report_kept_back(turn);
    round.failed = true;
    turn.send(round.failure_of(exited.local_rank));
  } else if (round.kept_until && exited.exit.success()) {
    report_kept_back(turn);  // it is the peer
  }
  const auto& workers = round.group.workers();
  const auto ended_well = std::count_if(workers.begin(), workers.end(), [](const auto& worker) {
    return worker.exit && worker.exit->success();
  });
  if (exited.exit.success() && ended_well == 1)
    round.uneven_at = turn.now + NodeMachine::kUnevenAfter;
  follow(turn, group);
}

void report_kept_back(NodeTurn& turn) {
  NodeRound& round = *turn.node.round;
  round.kept_until.reset();
  round.failed = round.failed || !round.kept_back.empty();
  for (proto::WorkerFailed& failed : std::exchange(round.kept_back, {}))
    turn.send(std::move(failed));
}

/// It failed, though it runs: the core stops the round for it.
void report_hang(NodeTurn& turn, FoundHang& found) {
  NodeRound& round = *turn.node.round;
  const bool stop_is_near = round.hang || round.failed || turn.node.leave.signal;
  if (stop_is_near || round.group.stopping()) return;
  round.hang = std::move(found);
  turn.send(round.failure_of_hang(turn.now));
}

void note_can_wait(NodeTurn& turn, const WorkerCanWait& said) {
  turn.node.round->group.can_wait(said.local_rank, said.can);
}

/// It has lost a peer. That one may be ending, as with a worker that ends because of it.
void note_leaver(NodeTurn& turn, const WorkerWaits& waiting) {
  NodeRound& round = *turn.node.round;
  const WorkerRecord& worker = round.group.workers()[static_cast<std::size_t>(waiting.local_rank)];
  if (worker.waits()) return;  // it says so again
  round.group.waits(waiting.local_rank, waiting.step);
  if (!worker.waits()) return;
  round.leavers.push_back(waiting.local_rank);
  if (round.failed || turn.node.leave.signal) return;  // the stop is near
  // Else suspects may be looked at for the first one.
  if (round.kept_back.empty()) round.kept_until = turn.now + NodeMachine::kPeerEndsWithin;
  round.kept_back.push_back(round.failure_of_leaver(waiting.local_rank, turn.now));
}

void note_waits(NodeTurn& turn, const WorkerWaits& waiting) {
  follow(turn, turn.node.round->group.waits(waiting.local_rank, waiting.step));
}

void note_end_of_waiting(NodeTurn& turn, const WorkerExited& exited) {
  turn.node.round->group.exited(exited.local_rank, exited.exit, exited.at.value_or(turn.now),
                                exited.used);
}

void join_with_fewer(NodeTurn& turn, const WorkerExited& exited) {
  const NodeFacts& node = turn.node;
  note_end_of_waiting(turn, exited);
  if (node.prepared && !node.awaits_gpus && !node.is_spare) turn.send(node.join());
}

/// SIGKILL has not ended one that waited: nothing more can be done.
void give_up_waiting_workers(NodeTurn& turn) {
  if (!turn.node.round) return;
  turn.node.round->countdown_at.reset();
  turn.node.round->group.deadline_passed(turn.now);
}

void end_waiting_workers(NodeTurn& turn) {
  if (!turn.node.round || !turn.node.round->group.any_waits()) return;
  const GroupActions group = turn.node.round->group.kill_now(turn.now);
  if (group.signal != 0) turn.act(SignalWorkers{group.signal});
}

void warn_of_ended_workers(NodeTurn& turn) {
  NodeRound& round = *turn.node.round;
  if (!round.uneven_at || turn.now < *round.uneven_at) return;
  round.uneven_at.reset();
  turn.notice(ended_workers_line(round, turn.node.config.rendezvous.has_value()));
}

}  // namespace ddprun::agent::answers
