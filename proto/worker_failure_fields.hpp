// The names on the wire of all that is in proto/worker_failure.hpp.
#pragma once

#include "proto/json_kinds.hpp"
#include "proto/worker_failure.hpp"

namespace ddprun::proto {

inline constexpr Limits kLocalRank = between(0, kWorkersPerNodeMax - 1);
inline constexpr Limits kLastLines = list(kLastLinesMax, kLineBytesMax);
inline constexpr Limits kStackLines = list(kStackLinesMax, kLineBytesMax);

template <>
inline constexpr auto kNames<EvidenceKind> =
    std::to_array<std::string_view>({"not_started", "memory_kill", "fatal_signal", "hang",
                                     "error_file", "exception_line", "own_exit", "late_exit"});
static_assert(kNames<EvidenceKind>.size() == static_cast<int>(EvidenceKind::late_exit) + 1);

template <>
inline constexpr auto kFields<ExitStatus> = std::tuple{
    field("by_signal", &ExitStatus::by_signal),
    field("value", &ExitStatus::value),
    field("core_dumped", &ExitStatus::core_dumped),
};
template <>
inline constexpr auto kFields<ResourceUse> = std::tuple{
    field("peak_memory_bytes", &ResourceUse::peak_memory_bytes),
    field("cpu_time_ns", &ResourceUse::cpu_time),
};
template <>
inline constexpr auto kFields<WorkerProgress> = std::tuple{
    field("step", &WorkerProgress::step),
    field("phase", &WorkerProgress::phase),
};
template <>
inline constexpr auto kFields<Evidence> = std::tuple{
    field("kind", &Evidence::kind),
    field("at_ns", &Evidence::at, kInstant),
    field("text", &Evidence::text, kText),
    field("victim_phrase", &Evidence::victim_phrase, kText),
    field("after_stop", &Evidence::after_stop),
    field("timed_out", &Evidence::timed_out),
    field("suspended", &Evidence::suspended),
    field("all_silent", &Evidence::all_silent),
    field("in_output", &Evidence::in_output),
    field("uncertainty_ns", &Evidence::uncertainty),
};
template <>
inline constexpr auto kFields<WorkerFailure> = std::tuple{
    required("local_rank", &WorkerFailure::local_rank, kLocalRank),
    field("pid", &WorkerFailure::pid),
    field("exit", &WorkerFailure::exit),
    field("ran_for_ns", &WorkerFailure::ran_for),
    field("ended_at_ns", &WorkerFailure::ended_at, kInstant),
    field("error", &WorkerFailure::error, kText),
    field("last_lines", &WorkerFailure::last_lines, kLastLines),
    field("evidence", &WorkerFailure::evidence),
    field("stopped_by_us", &WorkerFailure::stopped_by_us),
    field("progress", &WorkerFailure::progress),
    field("stacks", &WorkerFailure::stacks, kStackLines),
    field("used", &WorkerFailure::used),
};

}  // namespace ddprun::proto
