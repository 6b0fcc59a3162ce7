// The events of a membership core, and its answers.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "proto/membership_messages.hpp"

namespace ddprun::rdzv {

using Clock = std::chrono::steady_clock;

/// A message of an agent.
struct FromAgent {
  proto::AgentId agent;
  proto::AgentMessage message;
};
/// The agent is gone without a message: its connection closed, or it missed too many keep-alives.
struct AgentLost {
  proto::AgentId agent;
  proto::LossSign sign = proto::LossSign::ended;
  std::chrono::nanoseconds silent_for{0};  ///< since its last message
  bool silent_for_longer = false;          ///< that was before the service was started
  proto::ClockId clock = 0;                ///< by which the service counts the silence
};
/// Time has moved past `Membership::deadline()`.
struct DeadlinePassed {};

using MembershipEvent = std::variant<FromAgent, AgentLost, DeadlinePassed>;

/// One message to one agent.
struct Send {
  proto::AgentId to;
  proto::MembershipMessage message;
};

struct MembershipActions {
  std::vector<Send> sends;
  /// One line: "round=3 forming->running event=join nodes=2"; empty when nothing changed.
  std::string log;
  std::vector<std::string> warnings;  ///< a line each, for the people at the service

  void send(proto::AgentId to, proto::MembershipMessage message) {
    sends.push_back({std::move(to), std::move(message)});
  }
};

/// Whether the agent that gets the message prints the line of the warning itself: now, or at the
/// end of the job.
bool carries(const Send& send, const std::string& warning);

enum class JobState {
  forming,   ///< agents join; no workers
  running,   ///< a round is out
  stopping,  ///< the round's agents stop their workers
  finished,  ///< terminal; has an outcome
};
inline constexpr int kJobStates = 4;

enum class EventKind {
  join,
  started,
  worker_failed,
  workers_done,
  stopped,
  leave,
  checked,
  ask_restart,
  lost,
  deadline
};
inline constexpr int kEventKinds = 10;

std::string_view to_string(JobState state);
std::string_view to_string(EventKind kind);

}  // namespace ddprun::rdzv
