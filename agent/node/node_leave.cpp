// A node is told by signals to end, and ends.
#include <csignal>
#include <string>
#include <utility>

#include "agent/node/node_answers.hpp"
#include "agent/node/node_machine.hpp"
#include "agent/node/node_notices.hpp"
#include "base/exit_codes.hpp"

namespace ddprun::agent::answers {

using namespace std::chrono_literals;

namespace {

constexpr auto kRepeatedWithin = 100ms;

void leave_by(NodeTurn& turn, const JobSignal& wish) {
  NodeFacts& node = turn.node;
  const int signal = wish.signal;
  node.leave.signal = signal;
  if (!node.has_no_workers()) {
    turn.notice(stopping_line(signal, node.config.stop.grace_period));
    if (node.round->group.deadline())
      node.round->countdown_at = turn.now + NodeMachine::kCountDownEvery;
  }
  // SIGTERM takes this node away, as its scheduler means it; the others are a person's wish to end
  // the job.
  const bool cancels = wish.cancels || signal != SIGTERM;
  turn.send(proto::Leave{signal, "", cancels, node.has_rendezvous});
  if (!node.config.rendezvous) return;
  turn.act(EndWithin{node.end_limit()});
  if (node.has_no_workers()) turn.notice(leaving_line(node, signal));
}

/// The outcome of a node that ends its part by itself has no counts: they are those that the core
/// told last.
void end_job(NodeTurn& turn, proto::Finished finished, bool round_open) {
  NodeFacts& node = turn.node;
  node.state = NodeState::over;
  if (finished.max_restarts == 0) {
    finished.max_restarts =
        node.round ? node.round->round.max_restarts : node.config.job.restart.max_restarts;
    finished.restart_count = node.restart_count;
  }
  node.restart_count = finished.restart_count;
  turn.act(EndJob{std::move(finished), round_open, node.kill_limit(turn.now)});
}

}  // namespace

bool pause_or_resume(NodeTurn& turn, const JobSignal& signal) {
  if (signal.signal == SIGTSTP) {
    turn.node.is_paused = true;
    turn.act(PauseJob{});
  } else if (signal.signal == SIGCONT) {
    turn.act(ResumeJob{std::exchange(turn.node.is_paused, false)});
  } else {
    return false;
  }
  return true;
}

bool is_repeated(const NodeTurn& turn, const JobSignal& signal) {
  const auto& last = turn.node.leave.last_signal;
  return last && signal.at - last->at < kRepeatedWithin;
}

void leave(NodeTurn& turn, const JobSignal& signal) { leave_by(turn, signal); }

/// No round that may be on its way is taken part in.
void leave_waiting(NodeTurn& turn, const JobSignal& signal) {
  stop_check(turn);
  leave_by(turn, signal);
  end_waiting_workers(turn);
  turn.node.state = NodeState::ending;
}

/// A scheduler signals the workers, too, so they may have succeeded just before. First the core
/// hears of that: if they were the last ones, the job is a success. If not, this node takes no part
/// in a new round. Of several signals the first by which a person ends the job on all nodes counts,
/// else the first SIGTERM: the core has heard of none yet.
void leave_once_clear(NodeTurn& turn, const JobSignal& signal) {
  auto& wish = turn.node.leave.once_clear;
  const bool is_weak = !wish || (wish->signal == SIGTERM && !wish->cancels);
  if (turn.node.config.rendezvous && is_weak) wish = signal;
  kill_leftovers(turn);
}

void leave_if_wished(NodeTurn& turn) {
  if (const auto signal = std::exchange(turn.node.leave.once_clear, std::nullopt))
    leave_by(turn, *signal);
}

void kill_workers(NodeTurn& turn, const JobSignal& signal) {
  const auto& last = turn.node.leave.last_signal;
  turn.notice(killing_line(signal.signal, last && last->signal == signal.signal));
  kill_group(turn);
}

/// Nothing of this node is left, and the user does not wait for the others.
void leave_now(NodeTurn& turn, const JobSignal& signal) {
  if (!turn.node.config.rendezvous) return;
  const bool reported = turn.node.state == NodeState::ending;
  end_job(turn, proto::outcome_of(proto::Leave{signal.signal, "", false}),
          turn.node.round && !reported);
}

void end(NodeTurn& turn, proto::Finished& finished) {
  const NodeState state = turn.node.state;
  const bool reported = state == NodeState::waiting || state == NodeState::ending;
  stop_check(turn);
  if (const auto& failure = turn.node.check.failure) {
    finished.exit_code = kExitUnsound;
    // The job may have ended before the core heard of it.
    if (finished.reason.find(*failure) == std::string::npos)
      turn.notice("this node failed its check (--preflight): " + *failure);
  }
  end_job(turn, std::move(finished), turn.node.round && !reported);
}

}  // namespace ddprun::agent::answers
