#include "launcher/report.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "launcher/exit_codes.hpp"
#include "launcher/launch_error.hpp"
#include "proto/words.hpp"

namespace ddprun::launcher {
namespace {

using Outcome_ = proto::Finished::Outcome;

std::string ranks(const std::vector<int>& list) {
  std::string text = list.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < list.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", list[i]);
  return text;
}

std::string culprit_text(const agent::AgentResult& result) {
  const proto::WorkerFailure& culprit = *result.finished.culprit;
  std::string text = fmt::format("ddprun: culprit: rank {} (local rank {}, pid {}), {}\n",
                                 result.finished.culprit_rank, culprit.local_rank, culprit.pid,
                                 proto::describe(culprit));
  if (!result.culprit_lines.empty()) {
    text += "ddprun: the last lines of its stderr:\n";
    for (const std::string& line : result.culprit_lines) text += "    " + line + "\n";
  } else if (result.culprit_output_seen && culprit.error.empty()) {
    text += "ddprun: it wrote nothing to stderr\n";
  }
  return text;
}

// The others: who failed too, who ended because of us.
std::string others_text(const agent::AgentResult& result) {
  std::vector<int> stopped;
  std::string text;
  for (std::size_t i = 0; i < result.workers.size(); ++i) {
    const agent::WorkerRecord& worker = result.workers[i];
    const int rank = result.first_rank + static_cast<int>(i);
    if (rank == result.finished.culprit_rank || !worker.exit || !worker.error.empty()) continue;
    if (worker.stopped_by_us) {
      stopped.push_back(rank);
    } else if (!worker.exit->success()) {
      text += fmt::format("ddprun: rank {} {} too, after {}\n", rank, proto::describe(*worker.exit),
                          proto::describe(worker.ran_for));
    }
  }
  if (!stopped.empty()) text += fmt::format("ddprun: stopped because of it: {}\n", ranks(stopped));
  return text;
}

bool any_line_has(const std::vector<std::string>& lines, std::string_view words) {
  return std::any_of(lines.begin(), lines.end(), [words](const std::string& line) {
    return line.find(words) != std::string::npos;
  });
}

/// What to try next, for failures that are about the store and not about the program.
std::string hints(const agent::AgentResult& result) {
  std::string text;
  if (result.newer_store_clients) {
    text += "ddprun: hint: the workers' PyTorch is newer than this ddprun: --worker-store=rank0\n";
  }
  if (any_line_has(result.culprit_lines, "built without libuv") ||
      any_line_has(result.culprit_lines, "build without libuv")) {
    text +=
        "ddprun: hint: this PyTorch has no libuv: set USE_LIBUV=0 and use --worker-store=rank0\n";
  }
  return text;
}

}  // namespace

int exit_code(const agent::AgentResult& result) {
  const proto::Finished& finished = result.finished;
  switch (finished.outcome) {
    case Outcome_::succeeded:
      return result.leftovers ? kExitInternal : kExitSuccess;
    case Outcome_::cancelled:
      return kExitSignalBase + finished.signal;
    case Outcome_::failed:
      break;
  }
  if (!finished.culprit) return kExitNoRound;
  if (!finished.culprit->error.empty()) return kExitNotExecutable;
  const proto::WorkerExit& exit = finished.culprit->exit;
  return exit.by_signal ? kExitSignalBase + exit.value : exit.value;
}

std::string report(const agent::AgentResult& result) {
  const proto::Finished& finished = result.finished;
  std::string text;
  if (result.leftovers) text += "ddprun: some processes of the job could not be killed\n";
  switch (finished.outcome) {
    case Outcome_::succeeded:
      return text;
    case Outcome_::cancelled:
      return text + fmt::format("ddprun: {}\n", finished.reason);
    case Outcome_::failed:
      break;
  }
  if (!finished.culprit) return text + fmt::format("ddprun: {}\n", finished.reason);
  text += culprit_text(result) + hints(result) + others_text(result);
  if (finished.max_restarts > 0) {
    text += fmt::format("ddprun: {} of {} restarts used\n", finished.restart_count,
                        finished.max_restarts);
  } else {
    text += "ddprun: no restarts allowed (see --max-restarts)\n";
  }
  return text + fmt::format("ddprun: exit code {}\n", exit_code(result));
}

}  // namespace ddprun::launcher
