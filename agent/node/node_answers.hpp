// What a node does about each event; the table of node_table.cpp says in which state. Each answer
// changes the facts and gives actions. Internal to NodeMachine.
#pragma once

#include <string>
#include <utility>

#include "agent/node/node_events.hpp"
#include "agent/node/node_facts.hpp"

namespace ddprun::agent {

/// One event while it is answered.
struct NodeTurn {
  void act(NodeAction action) { actions.push_back(std::move(action)); }
  /// A line for the user.
  void notice(std::string line) { act(Notice{std::move(line)}); }
  void send(proto::AgentMessage message) { act(Send{std::move(message)}); }

  NodeFacts& node;
  Clock::time_point now;
  NodeActions actions = {};
};

namespace answers {

// node_machine.cpp: the way into a round, and what happens while its workers run.

void join(NodeTurn& turn, Prepared& prepared);
void keep_place(NodeTurn& turn, Prepared& prepared);
void join_again(NodeTurn& turn);
void check(NodeTurn& turn, const proto::Check& check);
void note_check(NodeTurn& turn, CheckEnded& ended);
void stop_check(NodeTurn& turn);
void start(NodeTurn& turn, proto::Round& round);
void announce_restart(NodeTurn& turn, const proto::RestartPlanned& planned);
void announce_wait(NodeTurn& turn, proto::Waiting& waiting);
void pass_on(NodeTurn& turn, const proto::Remark& remark);
void note_started(NodeTurn& turn, const WorkersStarted& started);
void leave_for_problem(NodeTurn& turn, const CannotGoOn& cannot);
void note_exit(NodeTurn& turn, const WorkerExited& exited);
void report_hang(NodeTurn& turn, FoundHang& found);
void report_kept_back(NodeTurn& turn);
void note_early_exit(NodeTurn& turn, const WorkerExited& exited);
void note_can_wait(NodeTurn& turn, const WorkerCanWait& said);
void note_leaver(NodeTurn& turn, const WorkerWaits& waiting);
void note_waits(NodeTurn& turn, const WorkerWaits& waiting);
void note_end_of_waiting(NodeTurn& turn, const WorkerExited& exited);
/// The core learns that there is one less to go on.
void join_with_fewer(NodeTurn& turn, const WorkerExited& exited);
void give_up_waiting_workers(NodeTurn& turn);
/// SIGKILL for workers that wait for a round: this node takes part in none soon.
void end_waiting_workers(NodeTurn& turn);
/// Workers that still run may wait for one that has ended, for ever.
void warn_of_ended_workers(NodeTurn& turn);

// node_stop.cpp: the end of a round.

void stop_when_started(NodeTurn& turn, proto::Stop& stop);
void stop(NodeTurn& turn, proto::Stop& stop);
void stop_harder(NodeTurn& turn, const proto::Stop& stop);
void clear_harder(NodeTurn& turn, const proto::Stop& stop);
void answer_stop(NodeTurn& turn, const proto::Stop& stop);
void note_conditions(NodeTurn& turn, const ConditionsSeen& seen);
void group_deadline(NodeTurn& turn);
void note_leftovers(NodeTurn& turn, const LeftoversSeen& seen);
void leftovers_deadline(NodeTurn& turn);
void report(NodeTurn& turn);
void kill_leftovers(NodeTurn& turn);
void begin_stop(NodeTurn& turn);
/// SIGKILL for all workers.
void kill_group(NodeTurn& turn);
/// After a change of the group: SIGKILL has a deadline, the user hears how long it may take, and
/// when all have ended it is the leftovers' turn.
void follow(NodeTurn& turn, const GroupActions& group);

// node_leave.cpp: signals, and the end of this node's part.

void leave(NodeTurn& turn, const JobSignal& signal);
void leave_waiting(NodeTurn& turn, const JobSignal& signal);
void leave_once_clear(NodeTurn& turn, const JobSignal& signal);
void leave_now(NodeTurn& turn, const JobSignal& signal);
void kill_workers(NodeTurn& turn, const JobSignal& signal);
void end(NodeTurn& turn, proto::Finished& finished);
/// If `leave_once_clear` was the answer to a signal.
void leave_if_wished(NodeTurn& turn);
/// Whatever the state is: a job that is paused goes through its states as any other.
bool pause_or_resume(NodeTurn& turn, const JobSignal& signal);
/// One request may reach us twice: Ctrl-C from the terminal and from a wrapper, SIGTERM and the
/// SIGHUP that systemd can send behind it. Only what comes later is impatience.
bool is_repeated(const NodeTurn& turn, const JobSignal& signal);

}  // namespace answers
}  // namespace ddprun::agent
