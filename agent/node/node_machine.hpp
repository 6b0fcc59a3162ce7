// A node's part in the job, as a pure state machine: (state, event, now) -> actions. It decides
// what follows from signals, the ends of workers, hangs, leftovers and the membership core's
// messages; whether there is another round is the core's decision. No sockets, no clock, no system
// calls: the shell around it (agent_loop.hpp) obeys.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

#include "agent/config.hpp"
#include "agent/node/node_events.hpp"
#include "agent/node/node_facts.hpp"

namespace ddprun::agent {

enum class NodeEventKind {
  signal,
  signal_again,  ///< another one after that
  prepared,
  started,
  problem,
  exited,
  can_wait,
  waits,
  conditions,
  hang,
  suspects,
  check_ended,
  gpus_awaited,
  leftovers,
  output_read,
  deadline,
  round,
  restart_planned,
  nodes_missing,
  check,
  remark,
  stop,
  finished,
};
inline constexpr int kNodeEventKinds = 23;

std::string_view to_string(NodeState state);
std::string_view to_string(NodeEventKind kind);

class NodeMachine {
 public:
  /// How often a user who waits for the end is told how long it may take.
  static constexpr std::chrono::seconds kCountDownEvery{5};

  /// When a worker has ended well for so long while others run, the user is told once.
  static constexpr std::chrono::seconds kUnevenAfter{30};

  /// A worker that leaves closes its connections before its process ends: Python needs 50 to 150 ms
  /// for that. Who has lost it by then may have failed first.
  static constexpr std::chrono::milliseconds kPeerEndsWithin{500};

  /// The configuration is borrowed. Waits for the first Prepared, unasked.
  explicit NodeMachine(const AgentConfig& config) : facts_(config) {}

  NodeActions on(NodeEvent event, Clock::time_point now);

  /// When TimePassed is due; none: nothing is waited for.
  [[nodiscard]] std::optional<Clock::time_point> deadline() const { return facts_.deadline(); }
  [[nodiscard]] NodeState state() const { return facts_.state; }
  /// The one that is out, or the last one; null: there was none.
  [[nodiscard]] const NodeRound* round() const { return facts_.round ? &*facts_.round : nullptr; }
  /// The workers of that round, by local rank; none: there was no round.
  [[nodiscard]] const std::vector<WorkerRecord>& workers() const;
  /// By the core's last message that told it.
  [[nodiscard]] int restart_count() const { return facts_.restart_count; }
  /// Some run, or what they left; or they are about to be started.
  [[nodiscard]] bool may_have_workers() const {
    return state() != NodeState::waiting && state() != NodeState::done &&
           state() != NodeState::ending && state() != NodeState::over;
  }
  /// By Ctrl-Z.
  [[nodiscard]] bool paused() const { return facts_.is_paused; }
  [[nodiscard]] bool waits_for_leftovers() const {
    return facts_.round && facts_.round->leftovers.waiting();
  }

  /// What follows an event in a state, in words; "ignored" where the event has no meaning there.
  static std::string_view response(NodeState state, NodeEventKind kind);

 private:
  NodeFacts facts_;
};

}  // namespace ddprun::agent
