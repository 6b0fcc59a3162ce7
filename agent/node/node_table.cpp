// The table of a node's part in the job; docs/architecture.md has the same in words.
#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "agent/node/node_answers.hpp"
#include "agent/node/node_machine.hpp"

namespace ddprun::agent {

std::string_view to_string(NodeState state) {
  static constexpr std::array<std::string_view, kNodeStates> kNames{
      "waiting",  "starting", "running", "finishing", "stopping",
      "clearing", "done",     "ending",  "over"};
  return kNames[static_cast<std::size_t>(state)];
}

std::string_view to_string(NodeEventKind kind) {
  static constexpr std::array<std::string_view, kNodeEventKinds> kNames{
      "signal",        "second signal", "prepared",    "started",  "problem",  "exited",
      "can wait",      "waits",         "conditions",  "hang",     "suspects", "check ended",
      "gpus awaited",  "leftovers",     "output read", "deadline", "round",    "restart planned",
      "nodes missing", "check",         "remark",      "stop",     "finished"};
  return kNames[static_cast<std::size_t>(kind)];
}

namespace {

struct Response {
  void (*answer)(NodeTurn&, NodeEvent&);
  std::string_view name;
};

/// An answer is a function of the turn, and of the event where that tells more than that it came.
template <auto kAnswer>
struct Call;
template <void (*kAnswer)(NodeTurn&)>
struct Call<kAnswer> {
  static void now(NodeTurn& turn, NodeEvent&) { kAnswer(turn); }
};
template <class Event, void (*kAnswer)(NodeTurn&, Event&)>
struct Call<kAnswer> {
  static void now(NodeTurn& turn, NodeEvent& event) {
    kAnswer(turn, std::get<std::remove_const_t<Event>>(event));
  }
};

template <auto kAnswer>
constexpr Response does(std::string_view name) {
  return {&Call<kAnswer>::now, name};
}

// A row for each event, in the order of NodeEventKind; a column for each state.
constexpr auto kTable = [] {
  constexpr Response no{[](NodeTurn&, NodeEvent&) {}, "ignored"};
  constexpr Response leave = does<&answers::leave>("leave");
  constexpr Response give_up = does<&answers::leave_waiting>("leave, end");
  constexpr Response now = does<&answers::leave_now>("end, if there are other nodes");
  constexpr Response kill = does<&answers::kill_workers>("kill workers");
  constexpr Response clear = does<&answers::kill_leftovers>("kill leftovers");
  constexpr Response later =
      does<&answers::leave_once_clear>("kill leftovers, then leave, if there are other nodes");
  constexpr Response join = does<&answers::join>("join, or leave");
  constexpr Response keep = does<&answers::keep_place>("keep, or leave");
  constexpr Response run = does<&answers::note_started>("run");
  constexpr Response fail = does<&answers::leave_for_problem>("leave");
  constexpr Response exit = does<&answers::note_exit>("report a failure, clear after the last");
  constexpr Response fewer = does<&answers::join_with_fewer>("join with the others");
  constexpr Response early = does<&answers::note_early_exit>("report once started");
  constexpr Response gone = does<&answers::note_end_of_waiting>("note");
  constexpr Response lost = does<&answers::give_up_waiting_workers>("give up workers that waited");
  constexpr Response can = does<&answers::note_can_wait>("note");
  constexpr Response leaver = does<&answers::note_leaver>("report soon");
  constexpr Response waits = does<&answers::note_waits>("clear after the last");
  constexpr Response seen = does<&answers::note_conditions>("note");
  constexpr Response hang = does<&answers::report_hang>("report");
  constexpr Response kept = does<&answers::report_kept_back>("report what was kept back");
  constexpr Response told = does<&answers::note_check>("tell the core");
  constexpr Response rejoin = does<&answers::join_again>("join");
  constexpr Response left = does<&answers::note_leftovers>("go on when none is left");
  constexpr Response read = does<&answers::report>("report");
  constexpr Response late = does<&answers::group_deadline>("kill workers, then give up");
  constexpr Response ended = does<&answers::warn_of_ended_workers>("tell the user");
  constexpr Response last = does<&answers::leftovers_deadline>("terminate, then kill leftovers");
  constexpr Response start = does<&answers::start>("start workers");
  constexpr Response plan = does<&answers::announce_restart>("announce");
  constexpr Response wait = does<&answers::announce_wait>("announce");
  constexpr Response check = does<&answers::check>("run the check");
  constexpr Response tell = does<&answers::pass_on>("tell the user");
  constexpr Response after = does<&answers::stop_when_started>("stop once started");
  constexpr Response stop = does<&answers::stop>("stop workers");
  constexpr Response harder = does<&answers::stop_harder>("kill workers, if asked for");
  constexpr Response sweep = does<&answers::clear_harder>("kill leftovers, if asked for");
  constexpr Response answer = does<&answers::answer_stop>("answer, if none runs");
  constexpr Response end = does<&answers::end>("end");
  return std::array<std::array<Response, kNodeStates>, kNodeEventKinds>{{
      // waiting, starting, running, finishing, stopping, clearing, done, ending, over
      {give_up, leave, leave, later, leave, leave, leave, leave, no},  // signal
      {no, no, kill, clear, kill, clear, now, now, no},                // signal_again
      {join, no, no, no, keep, keep, no, no, no},                      // prepared
      {no, run, no, no, no, no, no, no, no},                           // started
      {no, fail, fail, no, no, no, no, no, no},                        // problem
      {fewer, early, exit, no, exit, gone, no, gone, no},              // exited
      {no, no, can, no, no, no, no, no, no},                           // can_wait
      {no, no, leaver, no, waits, no, no, no, no},                     // waits
      {no, no, no, no, seen, no, no, no, no},                          // conditions
      {no, no, hang, no, no, no, no, no, no},                          // hang
      {no, no, kept, no, no, no, no, no, no},                          // suspects
      {told, no, no, no, no, no, no, no, no},                          // check_ended
      {rejoin, no, no, no, no, no, no, no, no},                        // gpus_awaited
      {no, no, no, left, no, left, no, no, no},                        // leftovers
      {no, no, no, no, no, read, no, no, no},                          // output_read
      {lost, no, late, last, late, last, ended, lost, no},             // deadline
      {start, no, no, no, no, no, no, no, no},                         // round
      {plan, no, no, no, no, no, no, no, no},                          // restart_planned
      {wait, no, no, no, no, no, no, no, no},                          // nodes_missing
      {check, no, no, no, no, no, no, no, no},                         // check
      {tell, tell, tell, tell, tell, tell, tell, tell, no},            // remark
      {no, after, stop, stop, harder, sweep, stop, answer, no},        // stop
      {end, end, end, end, end, end, end, end, no},                    // finished
  }};
}();

const Response& response_to(NodeState state, NodeEventKind kind) {
  return kTable[static_cast<std::size_t>(kind)][static_cast<std::size_t>(state)];
}

NodeEventKind kind_of(const NodeEvent& event, const NodeFacts& node) {
  static_assert(std::variant_size_v<NodeEvent> + 1 == kNodeEventKinds);
  const std::size_t index = event.index();
  if (index > 0) return static_cast<NodeEventKind>(index + 1);  // the order is the variant's
  return node.leave.signal ? NodeEventKind::signal_again : NodeEventKind::signal;
}

}  // namespace

const std::vector<WorkerRecord>& NodeMachine::workers() const {
  static const std::vector<WorkerRecord> kNone;
  return round() != nullptr ? round()->group.workers() : kNone;
}

std::string_view NodeMachine::response(NodeState state, NodeEventKind kind) {
  return response_to(state, kind).name;
}

NodeActions NodeMachine::on(NodeEvent event, Clock::time_point now) {
  NodeTurn turn{facts_, now};
  const auto* signal = std::get_if<JobSignal>(&event);
  if (signal != nullptr &&
      (answers::pause_or_resume(turn, *signal) || answers::is_repeated(turn, *signal)))
    return std::move(turn.actions);
  response_to(state(), kind_of(event, facts_)).answer(turn, event);
  if (signal != nullptr) facts_.leave.last_signal = *signal;
  return std::move(turn.actions);
}

}  // namespace ddprun::agent
