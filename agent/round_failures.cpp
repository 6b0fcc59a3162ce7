#include "agent/round_failures.hpp"

#include <algorithm>

#include "agent/evidence/error_file.hpp"
#include "agent/evidence/evidence.hpp"
#include "agent/streams/log_files.hpp"
#include "agent/worker_environment.hpp"

namespace ddprun::agent {
namespace {

// The kernel stamps files by a clock that is up to a tick behind.
constexpr std::chrono::milliseconds kFileClock{20};

/// What one worker said before it ended.
struct LastWords {
  LineSigns signs;
  std::vector<std::string> lines;
};

LastWords last_words(const EndedRound& ended, int local_rank) {
  LastWords words;
  const StreamMode mode =
      ended.config.workers[static_cast<std::size_t>(local_rank)].standard_error.mode;
  if (mode == StreamMode::file) {
    words.lines = last_lines_of(
        stream_file(ended.config.log_folder, ended.round.restart_count, local_rank, true),
        kTailLines, kTailLineBytesMax);
    // When they came is not known: at the latest at its end.
    const auto at = ended.workers[static_cast<std::size_t>(local_rank)].ended_at;
    for (const std::string& line : words.lines) words.signs.line(line, [at] { return at; });
  } else if (ended.output != nullptr) {
    words.lines = ended.output->last_lines(ended.round.number, local_rank);
    words.signs = ended.output->signs(ended.round.number, local_rank);
  }
  return words;
}

}  // namespace

std::vector<proto::WorkerFailure> failures_of(const EndedRound& ended) {
  std::vector<proto::WorkerFailure> failures;
  for (std::size_t i = 0; i < ended.workers.size(); ++i) {
    const WorkerRecord& worker = ended.workers[i];
    const int local_rank = static_cast<int>(i);
    LastWords words = last_words(ended, local_rank);
    WorkerObservation seen;
    seen.exit = worker.exit;
    seen.ended_at = worker.ended_at - ended.started_at;
    seen.stopped_by_us = worker.stopped_by_us;
    seen.stop_signal = ended.stop_signal;
    seen.not_started = worker.error;
    seen.memory_kill = ended.memory_kill;
    if (const auto at = words.signs.first_at()) seen.exception_at = *at - ended.started_at;
    seen.exception_message = words.signs.message();
    const auto file = read_error_file(error_file(ended.config, ended.round, local_rank));
    if (file && file->problem.empty() && file->written + kFileClock >= ended.wall_started_at) {
      seen.error_file_at =
          std::max(std::chrono::nanoseconds(0),
                   std::chrono::nanoseconds(file->written - ended.wall_started_at));
      seen.error_file_message = file->error.message;
      if (words.lines.empty()) words.lines = file->error.callstack;
    }
    const auto evidence = evidence_of(seen);
    if (!evidence) continue;
    proto::WorkerFailure failure;
    failure.local_rank = local_rank;
    failure.pid = worker.pid;
    failure.exit = worker.exit.value_or(proto::WorkerExit{});
    failure.ran_for = worker.ran_for;
    failure.error = worker.error;
    failure.last_lines = std::move(words.lines);
    failure.evidence = *evidence;
    failure.stopped_by_us = worker.stopped_by_us;
    failures.push_back(std::move(failure));
  }
  return failures;
}

}  // namespace ddprun::agent
