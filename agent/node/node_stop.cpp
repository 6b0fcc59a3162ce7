// A node stops a round: its workers end, what they left ends, the core is told.
#include <algorithm>
#include <csignal>
#include <optional>
#include <utility>

#include "agent/node/node_answers.hpp"
#include "agent/node/node_machine.hpp"
#include "agent/node/node_notices.hpp"

namespace ddprun::agent::answers {

void stop_when_started(NodeTurn& turn, proto::Stop& stop) {
  auto& known = turn.node.round->stop;
  stop.final = stop.final || (known && known->final);
  known = std::move(stop);
}

void stop(NodeTurn& turn, proto::Stop& stop) {
  turn.node.round->stop = std::move(stop);
  begin_stop(turn);
}

/// Answers for a round in which this node never took part, because it had left; what became of a
/// round that it has reported, the core knows.
void answer_stop(NodeTurn& turn, const proto::Stop& stop) {
  const auto& round = turn.node.round;
  if (!round || round->round.number < stop.round) turn.send(proto::Stopped{stop.round, {}});
}

void begin_stop(NodeTurn& turn) {
  NodeFacts& node = turn.node;
  NodeRound& round = *node.round;
  leave_if_wished(turn);
  node.state = NodeState::stopping;
  round.stopped_at = turn.now;
  round.stop_signal = node.leave.signal.value_or(SIGTERM);
  round.kept_back.clear();
  round.kept_until.reset();
  round.uneven_at.reset();
  if (node.leave.signal) round.patience_ends = turn.now + node.config.stop.grace_period;
  turn.act(StopWatching{});
  if (round.stop->final || node.leave.signal) {
    turn.act(EndWithin{node.end_limit()});
  } else if (node.config.store.master_port == 0) {
    turn.act(Prepare{});  // before the old group is gone: the new port cannot be taken by it, or
                          // meet its keys
  }
  if (round.hang) round.group.can_wait(round.hang->local_rank, false);
  const bool keep = round.stop->keep && !round.stop->kill && !node.leave.signal;
  GroupActions group = round.group.stop(round.stop_signal, turn.now, keep);
  if (round.stop->kill && !group.ended) group = round.group.kill_now(turn.now);
  if (group.signal != 0) turn.act(StopWorkers{group.signal, node.is_paused, round.stop->may_save});
  follow(turn, group);
}

void note_conditions(NodeTurn& turn, const ConditionsSeen& seen) {
  WorkerGroup& group = turn.node.round->group;
  for (std::size_t i = 0; i < seen.workers.size(); ++i) {
    const int local_rank = static_cast<int>(i);
    if (seen.workers[i].dying && !turn.node.leave.signal) group.already_dying(local_rank);
    if (seen.workers[i].suspended && !turn.node.is_paused) group.suspended(local_rank);
  }
}

void kill_group(NodeTurn& turn) {
  const GroupActions group = turn.node.round->group.kill_now(turn.now);
  if (group.signal != 0) turn.act(SignalWorkers{group.signal});
  follow(turn, group);
}

// ---- what the workers leave ----

/// Nothing of the round is left, or only what cannot be killed.
void report(NodeTurn& turn) {
  NodeFacts& node = turn.node;
  const NodeRound& round = *node.round;
  // What is left may hold the GPUs' memory and the round's files: no other round beside it.
  // The reason that made us leave comes first.
  if (round.stuck && !node.leave.signal)
    turn.send(proto::Leave{0, "processes of the last round could not be killed"});
  turn.act(ReportRound{});
  const bool last = round.stop->final || node.leave.signal || round.stuck;
  node.state = last ? NodeState::ending : NodeState::waiting;
  if (last) return end_waiting_workers(turn);
  // Workers that go on use theirs.
  node.awaits_gpus = !node.config.checks.claimed_gpus.empty() && !round.group.any_waits();
  if (node.awaits_gpus) return turn.act(AwaitGpus{});
  join_again(turn);
}

namespace {

/// What failed workers wrote last is evidence, so it is read first.
void end_round(NodeTurn& turn) {
  NodeRound& round = *turn.node.round;
  if (round.stop) {
    if (!round.has_failures()) return report(turn);
    if (!std::exchange(round.is_being_read, true)) turn.act(ReadOutput{});
    return;
  }
  turn.send(proto::WorkersDone{round.round.number});
  turn.node.state = NodeState::done;
  leave_if_wished(turn);
}

void take(NodeTurn& turn, Leftovers::Step step) {
  switch (step) {
    case Leftovers::Step::nothing:
      return;
    case Leftovers::Step::terminate:
      return turn.act(TerminateLeftovers{turn.node.round->leftovers.patience()});
    case Leftovers::Step::kill:
      return turn.act(KillLeftovers{turn.node.kill_limit(turn.now)});
    case Leftovers::Step::over:
      end_round(turn);
  }
}

/// What the workers have left is told to end where they ended well or the user stopped them; what a
/// failed round leaves is in the way of the next one. So a stop also ends the wait after a success.
/// While SIGKILL ends them, a look would find them, though they are not stuck.
void clear(NodeTurn& turn) {
  NodeRound& round = *turn.node.round;
  turn.node.state = round.stop ? NodeState::clearing : NodeState::finishing;
  Leftovers& leftovers = round.leftovers;
  if (leftovers.killing()) return;
  if (!leftovers.waiting()) {
    turn.act(LookForLeftovers{});
  } else if (round.stop->kill) {
    take(turn, leftovers.kill_now());
  } else if (!turn.node.leave.signal) {  // the user's stop leaves them the rest of their time
    leftovers.end_patience(turn.now);
  }
}

/// True: there is no more time for it, which is news.
bool must_be_harder(NodeRound& round, const proto::Stop& stop) {
  return stop.kill && !std::exchange(round.stop->kill, true);
}

/// The user waits for the job to end, and is told how long that may still take.
void count_down(NodeTurn& turn) {
  NodeRound& round = *turn.node.round;
  round.countdown_at.reset();
  if (!round.group.deadline()) return;
  const auto left = std::chrono::ceil<std::chrono::seconds>(*round.group.deadline() - turn.now);
  if (left <= std::chrono::seconds(0)) return;
  if (round.group.killed()) return turn.act(NameStuck{left});
  turn.notice(count_down_line(round, left));
  round.countdown_at = turn.now + NodeMachine::kCountDownEvery;
}

}  // namespace

void stop_harder(NodeTurn& turn, const proto::Stop& stop) {
  if (must_be_harder(*turn.node.round, stop)) kill_group(turn);
}

void clear_harder(NodeTurn& turn, const proto::Stop& stop) {
  if (must_be_harder(*turn.node.round, stop)) kill_leftovers(turn);
}

/// After a success only what the workers left is in the way, and the job stays a success.
void kill_leftovers(NodeTurn& turn) { take(turn, turn.node.round->leftovers.kill_now()); }

void follow(NodeTurn& turn, const GroupActions& group) {
  NodeRound& round = *turn.node.round;
  if (group.signal == SIGKILL && !round.kill_deadline)
    round.kill_deadline = turn.now + turn.node.config.stop.kill_timeout;
  if (group.ended) {
    round.countdown_at.reset();
    report_kept_back(turn);
    if (group.all_done || round.stop) clear(turn);
  } else if (group.signal != 0 && (turn.node.leave.signal || round.group.killed())) {
    round.countdown_at = turn.now + NodeMachine::kCountDownEvery;
  }
}

void group_deadline(NodeTurn& turn) {
  NodeRound& round = *turn.node.round;
  warn_of_ended_workers(turn);
  if (round.kept_until && turn.now >= *round.kept_until) report_kept_back(turn);
  if (round.countdown_at && turn.now >= *round.countdown_at) count_down(turn);
  const GroupActions group = round.group.deadline_passed(turn.now);
  if (group.signal != 0) {
    turn.notice(grace_over_line(turn.node.config.stop.grace_period));
    turn.act(SignalWorkers{group.signal});
  }
  follow(turn, group);
}

void note_leftovers(NodeTurn& turn, const LeftoversSeen& seen) {
  NodeRound& round = *turn.node.round;
  Leftovers& leftovers = round.leftovers;
  if (leftovers.killing() || leftovers.over()) {  // over: seen before
    leftovers.killed();
    round.stuck = round.stuck || seen.any;
    end_round(turn);
  } else if (!leftovers.begun()) {
    const auto patience = round.leftovers_patience(turn.node.config.stop.grace_period, turn.now);
    take(turn, leftovers.begin(seen.any, patience, turn.now));
  } else if (!seen.any) {
    take(turn, leftovers.gone());
  }
}

void leftovers_deadline(NodeTurn& turn) {
  take(turn, turn.node.round->leftovers.deadline_passed(turn.now));
}

}  // namespace ddprun::agent::answers
