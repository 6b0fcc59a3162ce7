#include "launcher/report.hpp"

#include <algorithm>
#include <csignal>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "launcher/exit_codes.hpp"
#include "launcher/launch_error.hpp"
#include "launcher/screen_text.hpp"
#include "proto/words.hpp"

namespace ddprun::launcher {
namespace {

using Outcome_ = proto::Finished::Outcome;
using proto::EvidenceKind;

// One screen: --report=FILE has everything.
constexpr std::size_t kTextBytesShown = 400;
constexpr std::size_t kLastLinesShown = 20;
constexpr std::size_t kStackLinesShown = 30;
constexpr std::size_t kStackLineBytesShown = 160;

std::string ranks(const std::vector<int>& list) {
  std::string text = list.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < list.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", list[i]);
  return text;
}

/// What usually lies behind a signal or an exception; empty: nothing that it does not say itself.
std::string_view usual_cause(const proto::WorkerFailure& failure) {
  if (failure.evidence.text.find("No module named") != std::string::npos) {
    return "workers run under $PYTHON_EXEC, else the first python3 on PATH: is that the one with "
           "the "
           "module? (ddprun --dry-run shows it)";
  }
  if (!failure.exit.by_signal) return "";
  switch (failure.exit.value) {
    case SIGBUS:
      return "SIGBUS is mostly a full /dev/shm (docker run --shm-size), or a file that was cut "
             "while it was mapped";
    case SIGILL:
      return "SIGILL is mostly a program built for another CPU";
    case SIGKILL:
      return failure.evidence.kind == EvidenceKind::memory_kill || failure.stopped_by_us
                 ? ""
                 : "SIGKILL did not come from ddprun: somebody's kill -9, or a container's limit";
    default:
      return "";
  }
}

/// Why this one is the culprit.
std::string evidence_text(const proto::Verdict& verdict) {
  const proto::Evidence& evidence = verdict.culprit.failure.evidence;
  const std::string said = on_screen(evidence.text, kTextBytesShown);
  std::string text;
  switch (evidence.kind) {
    case EvidenceKind::not_started:
      return "";
    case EvidenceKind::memory_kill:
      text = "the kernel killed it for memory";
      break;
    case EvidenceKind::fatal_signal:
      text = "a signal that only its own fault raises";
      if (!said.empty()) text += ": " + said;
      break;
    case EvidenceKind::hang:
      return fmt::format("ddprun: evidence: hang: rank {} {}\n", verdict.culprit.rank, said);
    case EvidenceKind::error_file:
      text = "its error file: " + said;
      break;
    case EvidenceKind::exception_line:
      text = "its stderr: " + (said.empty() ? "a traceback" : said);
      break;
    case EvidenceKind::own_exit:
      if (verdict.victims.empty()) return "";
      text = "it ended first";
      break;
    case EvidenceKind::late_exit:
      text = "it failed while the others were stopped, and speaks of no lost peer";
      break;
  }
  if (!evidence.victim_phrase.empty())
    text += " (words of a victim, but nobody else is more suspect)";
  return fmt::format("ddprun: evidence: {}\n", text);
}

/// What went wrong stands at the end of them.
std::string last_lines_text(const std::vector<std::string>& lines) {
  const std::size_t first = lines.size() - std::min(lines.size(), kLastLinesShown);
  std::string text = "ddprun: its last lines:\n";
  if (first > 0) text += fmt::format("    ... {} lines before, which --report=FILE has\n", first);
  for (std::size_t i = first; i < lines.size(); ++i)
    text += "    " + on_screen(lines[i], kTextBytesShown) + "\n";
  return text;
}

/// The head of a culprit's stacks: of all its threads they fill screens.
std::string stacks_text(const proto::WorkerFailure& culprit) {
  if (culprit.stacks.empty()) return "";
  const std::size_t shown = std::min(culprit.stacks.size(), kStackLinesShown);
  std::string text =
      "ddprun: its stacks, " + on_screen(culprit.stacks.front(), kTextBytesShown) + "\n";
  for (std::size_t i = 1; i < shown; ++i)
    text += "    " + on_screen(culprit.stacks[i], kStackLineBytesShown) + "\n";
  if (shown < culprit.stacks.size()) {
    text += fmt::format("    ... and {} more lines, which --report=FILE has\n",
                        culprit.stacks.size() - shown);
  }
  return text;
}

std::string culprit_text(const agent::AgentResult& result, const proto::Verdict& verdict) {
  const proto::WorkerFailure& culprit = verdict.culprit.failure;
  std::string text =
      fmt::format("ddprun: culprit: rank {} (local rank {}, pid {}), {}\n", verdict.culprit.rank,
                  culprit.local_rank, culprit.pid, proto::describe(culprit));
  text += evidence_text(verdict);
  if (const auto cause = usual_cause(culprit); !cause.empty())
    text += fmt::format("ddprun: hint: {}\n", cause);
  if (!culprit.last_lines.empty()) {
    text += last_lines_text(culprit.last_lines);
  } else if (result.culprit_output_seen && culprit.error.empty()) {
    text += "ddprun: it wrote nothing to stderr\n";
  }
  return text + stacks_text(culprit);
}

// The others: who failed because of it, who ended because of us.
std::string others_text(const agent::AgentResult& result, const proto::Verdict& verdict) {
  std::string text;
  std::vector<int> failed{verdict.culprit.rank};
  for (const proto::FailedWorker& victim : verdict.victims) {
    failed.push_back(victim.rank);
    const std::string& phrase = victim.failure.evidence.victim_phrase;
    text += fmt::format("ddprun: victim: rank {}, {}{}\n", victim.rank,
                        proto::describe(victim.failure), phrase.empty() ? "" : ": " + phrase);
  }
  std::vector<int> stopped;
  for (std::size_t i = 0; i < result.workers.size(); ++i) {
    const int rank = result.first_rank + static_cast<int>(i);
    const bool known = std::find(failed.begin(), failed.end(), rank) != failed.end();
    if (!known && result.workers[i].stopped_by_us) stopped.push_back(rank);
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
std::string store_hints(const agent::AgentResult& result, const proto::Verdict& verdict) {
  std::string text;
  if (result.newer_store_clients) {
    text += "ddprun: hint: the workers' PyTorch is newer than this ddprun: --worker-store=rank0\n";
  }
  const auto& lines = verdict.culprit.failure.last_lines;
  if (any_line_has(lines, "built without libuv") || any_line_has(lines, "build without libuv")) {
    text +=
        "ddprun: hint: this PyTorch has no libuv: set USE_LIBUV=0 and use --worker-store=rank0\n";
  }
  return text;
}

std::string restarts_text(const proto::Finished& finished) {
  if (finished.max_restarts == 0) return "ddprun: no restarts allowed (see --max-restarts)\n";
  const std::string used =
      fmt::format("{} of {} restarts used", finished.restart_count, finished.max_restarts);
  if (finished.no_restart.empty() || finished.no_restart == used) return "ddprun: " + used + "\n";
  return fmt::format("ddprun: not restarted: {} ({})\n", finished.no_restart, used);
}

}  // namespace

int exit_code(const agent::AgentResult& result, ExitCodeRule rule) {
  const proto::Finished& finished = result.finished;
  if (!result.leftovers.empty()) return kExitLeftovers;
  if (finished.outcome == Outcome_::cancelled) return kExitSignalBase + finished.signal;
  if (finished.outcome == Outcome_::succeeded) return kExitSuccess;
  if (!finished.verdict) return kExitNoRound;
  if (rule == ExitCodeRule::one) return 1;
  const proto::WorkerFailure& culprit = finished.verdict->culprit.failure;
  if (!culprit.error.empty()) return kExitNotExecutable;
  // A culprit that we stopped while it was still failing has no code that speaks for it.
  const bool by_us = culprit.stopped_by_us || culprit.evidence.kind == proto::EvidenceKind::hang;
  if (culprit.exit.success()) return 1;
  if (!culprit.exit.by_signal) return culprit.exit.value;
  if (by_us && (culprit.exit.value == SIGTERM || culprit.exit.value == SIGKILL)) return 1;
  return kExitSignalBase + culprit.exit.value;
}

std::string report(const agent::AgentResult& result, int code) {
  const proto::Finished& finished = result.finished;
  std::string text;
  for (const std::string& process : result.leftovers)
    text += fmt::format("ddprun: could not be killed: {}\n", on_screen(process, kTextBytesShown));
  if (result.dropped_bytes > 0)
    text += fmt::format("ddprun: dropped {} bytes of the workers' output\n", result.dropped_bytes);
  switch (finished.outcome) {
    case Outcome_::succeeded:
      return text;
    case Outcome_::cancelled:
      return text + fmt::format("ddprun: {}\n", finished.reason);
    case Outcome_::failed:
      break;
  }
  if (!finished.verdict) return text + fmt::format("ddprun: {}\n", finished.reason);
  text += culprit_text(result, *finished.verdict) + store_hints(result, *finished.verdict) +
          others_text(result, *finished.verdict) + restarts_text(finished);
  return text + fmt::format("ddprun: exit code {}\n", code);
}

}  // namespace ddprun::launcher
