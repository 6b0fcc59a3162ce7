// The table of a node's part in the job; docs/agent.md has the same in words.
#include "agent/control/node_machine.hpp"

namespace ddprun::agent {

std::string_view to_string(NodeState state) {
  static constexpr std::array<std::string_view, kNodeStates> kNames{
      "waiting",  "starting", "running", "finishing", "stopping",
      "clearing", "done",     "ending",  "over"};
  return kNames[static_cast<std::size_t>(state)];
}

std::string_view to_string(NodeEventKind kind) {
  static constexpr std::array<std::string_view, kNodeEventKinds> kNames{
      "signal",        "second signal", "prepared", "started",  "problem",
      "exited",        "conditions",    "hang",     "suspects", "check ended",
      "gpus awaited",  "leftovers",     "deadline", "round",    "restart planned",
      "nodes missing", "check",         "remark",   "stop",     "finished"};
  return kNames[static_cast<std::size_t>(kind)];
}

// A row for each event, in the order of NodeEventKind; a column for each state.
const NodeMachine::Table NodeMachine::kTable = [] {
  using M = NodeMachine;
  constexpr Response no{&M::ignore, "ignored"};
  constexpr Response leave{&M::leave, "leave"};
  constexpr Response give_up{&M::leave_waiting, "leave, end"};
  constexpr Response now{&M::leave_now, "end, if there are other nodes"};
  constexpr Response kill{&M::kill_workers, "kill workers"};
  constexpr Response clear{&M::kill_leftovers, "kill leftovers"};
  constexpr Response later{&M::leave_once_clear,
                           "kill leftovers, then leave, if there are other nodes"};
  constexpr Response join{&M::join, "join, or leave"};
  constexpr Response keep{&M::keep_place, "keep, or leave"};
  constexpr Response run{&M::note_started, "run"};
  constexpr Response fail{&M::leave_for_problem, "leave"};
  constexpr Response exit{&M::note_exit, "report a failure, clear after the last"};
  constexpr Response seen{&M::note_conditions, "note"};
  constexpr Response hang{&M::report_hang, "report"};
  constexpr Response kept{&M::report_kept_back, "report what was kept back"};
  constexpr Response told{&M::note_check, "tell the core"};
  constexpr Response rejoin{&M::join_again, "join"};
  constexpr Response left{&M::note_leftovers, "go on when none is left"};
  constexpr Response late{&M::group_deadline, "kill workers, then give up"};
  constexpr Response ended{&M::warn_of_ended_workers, "tell the user"};
  constexpr Response last{&M::leftovers_deadline, "terminate, then kill leftovers"};
  constexpr Response start{&M::start, "start workers"};
  constexpr Response plan{&M::announce_restart, "announce"};
  constexpr Response wait{&M::announce_wait, "announce"};
  constexpr Response check{&M::check, "run the check"};
  constexpr Response tell{&M::pass_on, "tell the user"};
  constexpr Response after{&M::stop_when_started, "stop once started"};
  constexpr Response stop{&M::stop, "stop workers"};
  constexpr Response harder{&M::stop_harder, "kill workers, if asked for"};
  constexpr Response sweep{&M::clear_harder, "kill leftovers, if asked for"};
  constexpr Response answer{&M::answer_stop, "answer, if none runs"};
  constexpr Response end{&M::end, "end"};
  return Table{{
      // waiting, starting, running, finishing, stopping, clearing, done, ending, over
      {give_up, leave, leave, later, leave, leave, leave, leave, no},  // signal
      {no, no, kill, clear, kill, clear, now, now, no},                // signal_again
      {join, no, no, no, keep, keep, no, no, no},                      // prepared
      {no, run, no, no, no, no, no, no, no},                           // started
      {no, fail, fail, no, no, no, no, no, no},                        // problem
      {no, no, exit, no, exit, no, no, no, no},                        // exited
      {no, no, no, no, seen, no, no, no, no},                          // conditions
      {no, no, hang, no, no, no, no, no, no},                          // hang
      {no, no, kept, no, no, no, no, no, no},                          // suspects
      {told, no, no, no, no, no, no, no, no},                          // check_ended
      {rejoin, no, no, no, no, no, no, no, no},                        // gpus_awaited
      {no, no, no, left, no, left, no, no, no},                        // leftovers
      {no, no, late, last, late, last, ended, no, no},                 // deadline
      {start, no, no, no, no, no, no, no, no},                         // round
      {plan, no, no, no, no, no, no, no, no},                          // restart_planned
      {wait, no, no, no, no, no, no, no, no},                          // nodes_missing
      {check, no, no, no, no, no, no, no, no},                         // check
      {tell, tell, tell, tell, tell, tell, tell, tell, no},            // remark
      {no, after, stop, stop, harder, sweep, stop, answer, no},        // stop
      {end, end, end, end, end, end, end, end, no},                    // finished
  }};
}();

std::string_view NodeMachine::response(NodeState state, NodeEventKind kind) {
  return kTable[static_cast<std::size_t>(kind)][static_cast<std::size_t>(state)].name;
}

NodeEventKind NodeMachine::kind_of(const NodeEvent& event) const {
  static_assert(std::variant_size_v<NodeEvent> + 1 == kNodeEventKinds);
  const std::size_t index = event.index();
  if (index > 0) return static_cast<NodeEventKind>(index + 1);  // the order is the variant's
  return leaving_ ? NodeEventKind::signal_again : NodeEventKind::signal;
}

NodeActions NodeMachine::on(NodeEvent event, Clock::time_point now) {
  NodeActions actions;
  const auto* signal = std::get_if<JobSignal>(&event);
  if (signal != nullptr && (pause_or_resume(*signal, actions) || is_repeated(*signal)))
    return actions;
  Context context{event, now, actions};
  const auto kind = static_cast<std::size_t>(kind_of(event));
  (this->*kTable[kind][static_cast<std::size_t>(state_)].handler)(context);
  if (signal != nullptr) last_signal_ = *signal;
  return actions;
}

}  // namespace ddprun::agent
