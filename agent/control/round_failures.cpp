#include "agent/control/round_failures.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>

#include "agent/evidence/error_file.hpp"
#include "agent/evidence/evidence.hpp"
#include "agent/evidence/file_clock.hpp"
#include "agent/streams/log_file.hpp"
#include "agent/workers/worker_environment.hpp"
#include "base/unique_handle.hpp"

namespace ddprun::agent {
namespace {

/// What one worker printed before it ended.
struct LastOutput {
  LineSigns signs;
  std::vector<std::string> lines;
};

bool is_older(WallTime written, const EndedRound& ended) {
  return written + kFileClock < ended.wall_started_at;
}

/// When a file of a worker was written, since the round began. A time at which the worker did not
/// live is that of a clock which was set meanwhile; then only its end is known.
std::chrono::nanoseconds since_start(WallTime written, const EndedRound& ended, int local_rank) {
  constexpr std::chrono::nanoseconds kStart{0};
  const std::chrono::nanoseconds end =
      ended.workers[static_cast<std::size_t>(local_rank)].ended_at - ended.started_at;
  const std::chrono::nanoseconds at = written - ended.wall_started_at;
  const bool later = end > kStart && at > end;
  return std::max(kStart, later || is_older(written, ended) ? end : at);
}

/// When the last lines of a file that a worker writes itself came: at the latest at its end.
Clock::time_point written_at(const std::string& file, const EndedRound& ended, int local_rank) {
  const UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (!fd || fstat(fd.get(), &status) != 0)
    return ended.workers[static_cast<std::size_t>(local_rank)].ended_at;
  return ended.started_at + since_start(last_written(fd.get(), status), ended, local_rank);
}

LastOutput last_output(const EndedRound& ended, int local_rank) {
  LastOutput output;
  const StartRound& start = ended.workers[static_cast<std::size_t>(local_rank)].start;
  const StreamMode mode =
      ended.config.workers[static_cast<std::size_t>(local_rank)].standard_error.mode;
  if (mode == StreamMode::file) {
    const std::string file =
        stream_file(ended.config.logs.folder, start.restart_count, local_rank, true);
    output.lines = last_lines_of(file, kTailLines, kTailLineBytesMax);
    const auto at = written_at(file, ended, local_rank);
    for (const std::string& line : output.lines) output.signs.line(line, [at] { return at; });
  } else if (ended.output != nullptr) {
    output.lines = ended.output->last_lines(start.number, local_rank);
    output.signs = ended.output->signs(start.number, local_rank);
  }
  return output;
}

/// Whether a worker has made progress since `exception`. Pages have the clock of the words.
bool went_on(const std::optional<ProgressPage>& page, Clock::time_point exception) {
  return page &&
         Clock::time_point(std::chrono::nanoseconds(page->time_ns)) > exception + LineSigns::kBurst;
}

/// Files of attempts that several rounds share may be an earlier round's.
bool has_files_of_its_own(const EndedRound& ended, const StartRound& start) {
  return ended.config.logs.folder.empty() ||
         start.number == static_cast<proto::RoundNumber>(start.restart_count);
}

std::chrono::nanoseconds hung_at(const FoundHang& found, Clock::time_point round_started_at) {
  return std::max(std::chrono::nanoseconds(0),
                  std::chrono::nanoseconds(found.since - round_started_at));
}

}  // namespace

ProgressPages read_progress_pages(const AgentConfig& config,
                                  const std::vector<WorkerRecord>& workers) {
  ProgressPages pages(workers.size());
  for (std::size_t i = 0; i < pages.size(); ++i)
    pages[i] =
        read_progress_page(progress_file(config, workers[i].start, static_cast<int>(i))).page;
  return pages;
}

std::optional<std::uint64_t> furthest_step(const ProgressPages& pages) {
  std::optional<std::uint64_t> furthest;
  for (const auto& page : pages) {
    if (page) furthest = std::max(furthest.value_or(0), page->step);
  }
  return furthest;
}

std::vector<proto::WorkerFailure> failures_of(const EndedRound& ended) {
  std::vector<proto::WorkerFailure> failures;
  for (std::size_t i = 0; i < ended.workers.size(); ++i) {
    const WorkerRecord& worker = ended.workers[i];
    const int local_rank = static_cast<int>(i);
    if (worker.waits()) continue;  // it did as it was asked, whatever it wrote meanwhile
    LastOutput output = last_output(ended, local_rank);
    WorkerObservation seen;
    seen.exit = worker.exit;
    seen.ended_at = worker.ended_at - ended.started_at;
    seen.stopped_by_us = worker.stopped_by_us;
    seen.was_dying = worker.was_dying;
    seen.killed_by_us = worker.killed_by_us;
    if (ended.stopped_at) seen.stopped_at = *ended.stopped_at - ended.started_at;
    seen.stop_signal = ended.stop_signal;
    seen.not_started = worker.error;
    seen.memory_kill = ended.memory_kill;
    // One that has gone on from an older round may have written of that one's end.
    if (const auto at = output.signs.first_at();
        at && *at >= ended.started_at && !went_on(ended.pages[i], *at)) {
      seen.exception_at = *at - ended.started_at;
      seen.exception_message = output.signs.message();
      seen.exception_certain = output.signs.certain();
      seen.exception_in_output = output.signs.has_stdout();
    }
    const auto file = read_error_file(error_file(ended.config, worker.start, local_rank));
    if (file && file->problem.empty() &&
        (has_files_of_its_own(ended, worker.start) || !is_older(file->written, ended))) {
      seen.error_file_at = since_start(file->written, ended, local_rank);
      seen.error_file_message = file->error.message;
      if (output.lines.empty()) output.lines = file->error.callstack;
    }
    const bool hung = ended.hang != nullptr && ended.hang->local_rank == local_rank;
    if (hung) {
      seen.hung_at = hung_at(*ended.hang, ended.started_at);
      seen.hang_message = ended.hang->message;
      seen.all_silent = ended.hang->all_silent;
    } else if (worker.was_suspended) {  // since when is not known
      seen.hung_at = seen.stopped_at;
      seen.hang_message = kSuspended;
      seen.suspended = true;
    }
    const auto evidence = evidence_of(seen);
    if (!evidence) continue;
    proto::WorkerFailure failure;
    failure.local_rank = local_rank;
    failure.pid = worker.pid;
    failure.exit = worker.exit.value_or(ExitStatus{});
    failure.used = worker.used;
    failure.ran_for = worker.ran_for;
    failure.ended_at = seen.ended_at;
    failure.error = worker.error;
    failure.last_lines = std::move(output.lines);
    failure.evidence = *evidence;
    failure.stopped_by_us = hung || (worker.stopped_by_us && !worker.was_dying);
    if (const auto& page = ended.pages[i]) failure.progress = {page->step, page->phase};
    if (hung) {  // what it wrote while it was stopped is no progress
      failure.progress = ended.hang->progress;
      failure.stacks = ended.hang->stacks;
    }
    failures.push_back(std::move(failure));
  }
  return failures;
}

void remove_files_of_worker(const AgentConfig& config, const StartRound& start, int local_rank) {
  if (config.run_directory.empty()) return;
  std::remove(progress_file(config, start, local_rank).c_str());
  if (config.logs.folder.empty()) std::remove(error_file(config, start, local_rank).c_str());
}

void remove_worker_files(const AgentConfig& config, const std::vector<WorkerRecord>& workers) {
  int local_rank = -1;
  for (const WorkerRecord& worker : workers) {
    ++local_rank;
    if (!worker.waits()) remove_files_of_worker(config, worker.start, local_rank);
  }
}

}  // namespace ddprun::agent
