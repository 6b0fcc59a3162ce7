// The names on the wire of all that is in proto/membership_messages.hpp and proto/job_settings.hpp.
#pragma once

#include "proto/json_kinds.hpp"
#include "proto/membership_messages.hpp"
#include "proto/worker_failure_fields.hpp"

namespace ddprun::proto {

inline constexpr Limits kRankOrNone = between(-1, kWorldSizeMax - 1);
inline constexpr Limits kRank = between(0, kWorldSizeMax - 1);
inline constexpr Limits kWorldSize = between(1, kWorldSizeMax);
inline constexpr Limits kNodes = between(0, kNodesMax);
inline constexpr Limits kLocalRanks{.most = static_cast<std::uint64_t>(kWorkersPerNodeMax) - 1,
                                    .count_max = static_cast<std::size_t>(kWorkersPerNodeMax)};
inline constexpr Limits kWorkersOfNode = list(static_cast<std::size_t>(kWorkersPerNodeMax));

// Workers
// -------------------------------------------------------------------------

template <>
inline constexpr auto kFields<JobTime> = std::tuple{
    required("at_ns", &JobTime::at, kInstant),
    field("uncertainty_ns", &JobTime::uncertainty),
    field("clock", &JobTime::clock),
};
template <>
inline constexpr auto kFields<RunningWorker> = std::tuple{
    required("local_rank", &RunningWorker::local_rank, kLocalRank),
    field("pid", &RunningWorker::pid),
    field("progress", &RunningWorker::progress),
    field("stacks", &RunningWorker::stacks, kStackLines),
    field("suspended", &RunningWorker::suspended),
};
template <>
inline constexpr auto kFields<EndedWorker> = std::tuple{
    required("local_rank", &EndedWorker::local_rank, kLocalRank),
    field("pid", &EndedWorker::pid),
    field("at_ns", &EndedWorker::at, kInstant),
};
template <>
inline constexpr auto kFields<ProgramFacts> = std::tuple{
    field("python", &ProgramFacts::python, kText),
    field("other_environment", &ProgramFacts::other_environment, kText),
    field("python_is_wanted", &ProgramFacts::python_is_wanted),
    field("shows_crashes", &ProgramFacts::shows_crashes),
    field("stdin_goes_to", &ProgramFacts::stdin_goes_to, kText),
    field("chooses_store_port", &ProgramFacts::chooses_store_port),
    field("program", &ProgramFacts::program, kText),
    field("arguments", &ProgramFacts::arguments, list(kArgumentsMax)),
};

// What the user chose
// -------------------------------------------------------------------------

template <>
inline constexpr auto kFields<RestartSettings> = std::tuple{
    field("max_restarts", &RestartSettings::max_restarts),
    field("window_ns", &RestartSettings::window),
    field("back_off_ns", &RestartSettings::back_off),
    field("back_off_max_ns", &RestartSettings::back_off_max),
    field("minimum_uptime_ns", &RestartSettings::minimum_uptime),
    field("crash_loop_rounds", &RestartSettings::crash_loop_rounds),
    field("no_restart_codes", &RestartSettings::no_restart_codes, list(kNoRestartCodesMax)),
};
template <>
inline constexpr auto kFields<JobSettings> = std::tuple{
    field("min_nodes", &JobSettings::min_nodes, between(1, kNodesMax)),
    field("max_nodes", &JobSettings::max_nodes, between(1, kNodesMax)),
    field("restart", &JobSettings::restart),
    field("max_node_changes", &JobSettings::max_node_changes),
    field("last_call_ns", &JobSettings::last_call),
    field("join_timeout_ns", &JobSettings::join_timeout),
    field("grow_delay_ns", &JobSettings::grow_delay),
    field("failing_nodes_step_back", &JobSettings::failing_nodes_step_back),
};
template <>
inline constexpr auto kAgrees<JobSettings> =
    [](const JobSettings& settings) { return settings.min_nodes <= settings.max_nodes; };

// From an agent
// -------------------------------------------------------------------------

template <>
inline constexpr auto kFields<PastRound> = std::tuple{
    required("epoch", &PastRound::epoch),
    required("number", &PastRound::number),
    field("restart_count", &PastRound::restart_count),
};
template <>
inline constexpr auto kFields<KeptWorker> =
    std::tuple{required("local_rank", &KeptWorker::local_rank, kLocalRank),
               required("round", &KeptWorker::round), field("step", &KeptWorker::step)};
template <>
inline constexpr std::string_view kKind<Join> = "join";
template <>
inline constexpr auto kFields<Join> = std::tuple{
    required("workers", &Join::local_world_size, between(1, kWorkersPerNodeMax)),
    field("role", &Join::role),
    field("requested_group_rank", &Join::requested_group_rank, kNodes),
    field("insists_on_rank", &Join::insists_on_rank),
    field("node_name", &Join::node_name),
    field("boot_id", &Join::boot_id),
    field("age_ns", &Join::age),
    field("store_addr", &Join::store_addr),
    field("store_port", &Join::store_port),
    field("store_clients_max", &Join::store_clients_max),
    field("settings", &Join::settings),
    field("was_in", &Join::was_in),
    field("wants_report", &Join::wants_report),
    field("checks_first", &Join::checks_first),
    field("kept", &Join::kept, kWorkersOfNode),
    field("knows_kept", &Join::knows_kept),
};
template <>
inline constexpr auto kAgrees<Join> =
    [](const Join& join) { return !join.insists_on_rank || join.requested_group_rank; };
template <>
inline constexpr std::string_view kKind<Started> = "started";
template <>
inline constexpr auto kFields<Started> = std::tuple{required("round", &Started::round)};
template <>
inline constexpr std::string_view kKind<WorkerFailed> = "worker_failed";
template <>
inline constexpr auto kFields<WorkerFailed> = std::tuple{
    required("round", &WorkerFailed::round),
    required("local_rank", &WorkerFailed::local_rank, kLocalRank),
    field("pid", &WorkerFailed::pid),
    field("exit", &WorkerFailed::exit),
    field("ran_for_ns", &WorkerFailed::ran_for),
    field("at_ns", &WorkerFailed::at, kInstant),
    field("error", &WorkerFailed::error, kText),
    field("hang", &WorkerFailed::hang, kText),
    field("round_began", &WorkerFailed::round_began),
};
template <>
inline constexpr auto kFields<SlowestWorker> = std::tuple{
    required("as_hang", &SlowestWorker::as_hang),
    field("place", &SlowestWorker::place),
    field("silent_for_ns", &SlowestWorker::silent_for),
};
template <>
inline constexpr auto kAgrees<SlowestWorker> =
    [](const SlowestWorker& worker) { return worker.as_hang.progress.has_value(); };
template <>
inline constexpr auto kFields<Losses> = std::tuple{
    field("dropped_bytes", &Losses::dropped_bytes),
    field("leftovers", &Losses::leftovers, list(kLeftoversMax, kLineBytesMax)),
};
template <>
inline constexpr std::string_view kKind<WorkersDone> = "workers_done";
template <>
inline constexpr auto kFields<WorkersDone> = std::tuple{
    required("round", &WorkersDone::round),
    field("losses", &WorkersDone::losses),
};
template <>
inline constexpr std::string_view kKind<Stopped> = "stopped";
template <>
inline constexpr auto kFields<Stopped> = std::tuple{
    required("round", &Stopped::round),
    field("failures", &Stopped::failures, kWorkersOfNode),
    field("furthest_step", &Stopped::furthest_step),
    field("still_ran", &Stopped::still_ran, kWorkersOfNode),
    field("round_began", &Stopped::round_began),
    field("losses", &Stopped::losses),
    field("slowest", &Stopped::slowest),
    field("ended", &Stopped::ended, kWorkersOfNode),
    field("program", &Stopped::program),
};
template <>
inline constexpr std::string_view kKind<Leave> = "leave";
template <>
inline constexpr auto kFields<Leave> = std::tuple{
    field("signal", &Leave::signal),
    field("error", &Leave::error, kText),
    field("cancels", &Leave::cancels),
    field("hosts", &Leave::hosts),
};
template <>
inline constexpr std::string_view kKind<AskRestart> = "ask_restart";
template <>
inline constexpr auto kFields<AskRestart> = std::tuple{};
template <>
inline constexpr std::string_view kKind<Checked> = "checked";
template <>
inline constexpr auto kFields<Checked> = std::tuple{
    required("number", &Checked::number),
    required("passed", &Checked::passed),
    field("text", &Checked::text, kText),
    field("hosts", &Checked::hosts),
};

// From the membership core
// ------------------------------------------------------------------------

template <>
inline constexpr auto kFields<FailedWorker> = std::tuple{
    field("agent", &FailedWorker::agent),
    field("rank", &FailedWorker::rank, kRankOrNone),
    required("failure", &FailedWorker::failure),
    field("node", &FailedWorker::node, kText),
};
template <>
inline constexpr std::string_view kKind<Round> = "round";
template <>
inline constexpr auto kFields<Round> = std::tuple{
    required("epoch", &Round::epoch),
    required("number", &Round::number),
    field("reason", &Round::reason, kText),
    required("group_rank", &Round::group_rank, between(0, kNodesMax - 1)),
    required("group_world_size", &Round::group_world_size, between(1, kNodesMax)),
    required("first_rank", &Round::first_rank, kRank),
    required("world_size", &Round::world_size, kWorldSize),
    required("first_role_rank", &Round::first_role_rank, kRank),
    required("role_world_size", &Round::role_world_size, kWorldSize),
    field("restart_count", &Round::restart_count),
    field("max_restarts", &Round::max_restarts),
    required("master_addr", &Round::master_addr),
    required("master_port", &Round::master_port),
    field("last_culprit", &Round::last_culprit),
    field("keep", &Round::keep, kLocalRanks),
    field("kept_workers", &Round::kept_workers),
    field("source_rank", &Round::source_rank, kRank),
    field("source_step", &Round::source_step),
};
template <>
inline constexpr std::string_view kKind<RestartPlanned> = "restart_planned";
template <>
inline constexpr auto kFields<RestartPlanned> = std::tuple{
    field("reason", &RestartPlanned::reason, kText),
    field("delay_ns", &RestartPlanned::delay),
    field("restart_count", &RestartPlanned::restart_count),
    field("max_restarts", &RestartPlanned::max_restarts),
    field("culprit", &RestartPlanned::culprit),
};
template <>
inline constexpr auto kNames<LossSign> =
    std::to_array<std::string_view>({"ended", "silent", "cut_off", "rebooted", "fenced"});
static_assert(kNames<LossSign>.size() == static_cast<int>(LossSign::fenced) + 1);
template <>
inline constexpr auto kFields<LostNode> = std::tuple{
    required("node", &LostNode::node, kText),
    field("first_rank", &LostNode::first_rank, kRank),
    field("workers", &LostNode::workers),
    field("sign", &LostNode::sign),
    field("silent_for_ns", &LostNode::silent_for),
    field("silent_for_longer", &LostNode::silent_for_longer),
    field("more", &LostNode::more),
};
template <>
inline constexpr std::string_view kKind<Waiting> = "waiting";
template <>
inline constexpr auto kFields<Waiting> = std::tuple{
    field("nodes", &Waiting::nodes, kNodes),
    field("min_nodes", &Waiting::min_nodes, kNodes),
    field("max_nodes", &Waiting::max_nodes, kNodes),
    field("joined", &Waiting::joined, list(kWaitingNamesMax)),
    field("checked", &Waiting::checked, list(kWaitingNamesMax)),
    field("missing", &Waiting::missing, list(kWaitingNamesMax)),
    field("left_ns", &Waiting::left),
    field("is_spare", &Waiting::is_spare),
    field("reason", &Waiting::reason, kText),
    field("for_past_workers", &Waiting::for_past_workers),
};
template <>
inline constexpr std::string_view kKind<Check> = "check";
template <>
inline constexpr auto kFields<Check> = std::tuple{required("number", &Check::number)};
template <>
inline constexpr std::string_view kKind<Remark> = "remark";
template <>
inline constexpr auto kFields<Remark> = std::tuple{required("text", &Remark::text, kText)};
template <>
inline constexpr std::string_view kKind<Stop> = "stop";
template <>
inline constexpr auto kFields<Stop> = std::tuple{
    required("round", &Stop::round),    field("reason", &Stop::reason, kText),
    field("final", &Stop::final),       field("kill", &Stop::kill),
    field("may_save", &Stop::may_save), field("keep", &Stop::keep),
};
template <>
inline constexpr auto kFields<Suspect> = std::tuple{
    field("agent", &Suspect::agent),
    field("rank", &Suspect::rank, kRankOrNone),
    required("worker", &Suspect::worker),
    field("node", &Suspect::node, kText),
};
template <>
inline constexpr auto kFields<EarlyEnd> = std::tuple{
    field("agent", &EarlyEnd::agent),
    field("rank", &EarlyEnd::rank, kRankOrNone),
    required("worker", &EarlyEnd::worker),
    field("node", &EarlyEnd::node, kText),
};
template <>
inline constexpr auto kFields<CloseCall> = std::tuple{
    required("rank", &CloseCall::rank, kRankOrNone),
    field("more", &CloseCall::more),
    field("within_ns", &CloseCall::within),
    field("by_kind", &CloseCall::by_kind),
};
inline constexpr Limits kVerdictWorkers = list(kVerdictWorkersMax);
template <>
inline constexpr auto kFields<Verdict> = std::tuple{
    required("culprit", &Verdict::culprit),
    field("victims", &Verdict::victims, kVerdictWorkers),
    field("alike", &Verdict::alike, kVerdictWorkers),
    field("suspects", &Verdict::suspects, kVerdictWorkers),
    field("close_call", &Verdict::close_call),
    field("ended", &Verdict::ended, kVerdictWorkers),
    field("program", &Verdict::program),
};
template <>
inline constexpr auto kNames<Finished::Outcome> =
    std::to_array<std::string_view>({"succeeded", "failed", "cancelled"});
static_assert(kNames<Finished::Outcome>.size() ==
              static_cast<int>(Finished::Outcome::cancelled) + 1);
template <>
inline constexpr auto kFields<NodeOfRound> = std::tuple{
    required("name", &NodeOfRound::name, kText),
    field("group_rank", &NodeOfRound::group_rank, kRank),
    field("first_rank", &NodeOfRound::first_rank, kRank),
    field("workers", &NodeOfRound::workers),
};
template <>
inline constexpr auto kFields<UnsoundNode> = std::tuple{
    required("node", &UnsoundNode::node, kText),
    field("reason", &UnsoundNode::reason, kText),
    field("times", &UnsoundNode::times),
};
template <>
inline constexpr std::string_view kKind<Finished> = "finished";
template <>
inline constexpr auto kFields<Finished> = std::tuple{
    required("outcome", &Finished::outcome),
    field("reason", &Finished::reason, kText),
    field("verdict", &Finished::verdict),
    field("no_restart", &Finished::no_restart, kText),
    field("signal", &Finished::signal),
    field("restart_count", &Finished::restart_count),
    field("max_restarts", &Finished::max_restarts),
    field("report_at", &Finished::report_at, kText),
    field("lost_node", &Finished::lost_node),
    field("exit_code", &Finished::exit_code, between(0, 255)),
    field("has_leftovers", &Finished::has_leftovers),
    field("losses", &Finished::losses),
    field("nodes", &Finished::nodes, list(kNodesMax)),
    field("unsound", &Finished::unsound, list(kUnsoundNodesMax)),
};

}  // namespace ddprun::proto
