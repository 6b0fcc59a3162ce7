#include "agent/evidence/evidence.hpp"

#include <algorithm>
#include <csignal>

#include "agent/evidence/line_signs.hpp"

namespace ddprun::agent {
namespace {

using proto::EvidenceKind;

/// Signals that a program raises by a fault of its own.
bool is_fault(int signal) {
  constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGTRAP, SIGXFSZ};
  return std::find(std::begin(kFaults), std::end(kFaults), signal) != std::end(kFaults);
}

/// What a worker's end says by itself; none: nothing that speaks against it.
std::optional<EvidenceKind> kind_of_end(const WorkerObservation& seen) {
  if (!seen.not_started.empty()) return EvidenceKind::not_started;
  if (!seen.exit || seen.exit->success()) return std::nullopt;
  const ExitStatus& exit = *seen.exit;
  if (exit.by_signal && exit.value == SIGKILL && seen.memory_kill && !seen.killed_by_us)
    return EvidenceKind::memory_kill;
  if (exit.by_signal && is_fault(exit.value)) return EvidenceKind::fatal_signal;
  if (!seen.stopped_by_us || seen.was_dying) return EvidenceKind::own_exit;
  // Death by our own signal, or the exit code by which a handler or a shell says the same.
  const bool obeyed = exit.by_signal
                          ? exit.value == seen.stop_signal || exit.value == SIGKILL
                          : exit.value == 128 + seen.stop_signal || exit.value == 128 + SIGKILL;
  return obeyed ? std::nullopt : std::optional(EvidenceKind::late_exit);
}

/// How much a sign says against the worker.
enum class Weight {
  none,
  consequence,  // of our stopping the worker, it may be
  doubtful,     // so long ago that the worker may have overcome it
  full,
};

Weight weight_of(const std::optional<std::chrono::nanoseconds>& at, const WorkerObservation& seen) {
  if (!at) return Weight::none;
  if (!seen.stopped_by_us || !seen.stopped_at) return Weight::full;
  const auto before = *seen.stopped_at - *at;
  if (before.count() <= 0) return Weight::consequence;
  if (before <= kStillFailing) return Weight::full;
  return before <= kStuckFailing ? Weight::doubtful : Weight::none;
}

}  // namespace

std::optional<proto::Evidence> evidence_of(const WorkerObservation& seen) {
  // However it ended: it did so because of us.
  if (seen.hung_at) {
    proto::Evidence hang{EvidenceKind::hang, *seen.hung_at, seen.hang_message, ""};
    hang.suspended = seen.suspended;
    hang.all_silent = seen.all_silent;
    return hang;
  }
  const auto end = kind_of_end(seen);
  // A line that may be an ordinary one explains a failure; it proves none, and it dates none.
  const Weight exception = weight_of(seen.exception_at, seen);
  const Weight proof = seen.exception_certain ? exception : Weight::none;
  const Weight file = weight_of(seen.error_file_at, seen);
  // A worker that was stopped while it still wrote of its exception failed all the same; one that
  // goes on to succeed did not. One that only obeyed may have written about that.
  const bool succeeded = seen.exit && seen.exit->success();
  if (succeeded && (!seen.stopped_by_us || file != Weight::full)) return std::nullopt;
  if (!end && std::max(proof, file) < Weight::doubtful) return std::nullopt;

  proto::Evidence evidence;
  evidence.at = seen.ended_at;
  evidence.kind = end.value_or(EvidenceKind::late_exit);
  const bool strong = end && *end <= EvidenceKind::fatal_signal;
  evidence.after_stop =
      seen.stopped_by_us && !seen.was_dying && (!strong || *end == EvidenceKind::fatal_signal);
  // An exception comes to stderr first and to the error file when it has gone all the way up.
  const auto add = [&](Weight weight, EvidenceKind kind,
                       const std::optional<std::chrono::nanoseconds>& at, const std::string& text) {
    if (weight == Weight::none) return;
    evidence.text = text;
    if (!strong) evidence.kind = kind;
    if (weight != Weight::full) return;
    evidence.at = std::min(evidence.at, *at);
    evidence.after_stop = false;
  };
  if (seen.exception_certain) {
    add(exception, EvidenceKind::exception_line, seen.exception_at, seen.exception_message);
  } else if (exception != Weight::none) {
    evidence.text = seen.exception_message;
    if (evidence.kind == EvidenceKind::own_exit) evidence.kind = EvidenceKind::exception_line;
  }
  add(file, EvidenceKind::error_file, seen.error_file_at, seen.error_file_message);
  evidence.in_output = evidence.kind == EvidenceKind::exception_line && seen.exception_in_output;
  if (!seen.not_started.empty()) {
    evidence.at = std::chrono::nanoseconds(0);
    evidence.text = seen.not_started;
  }
  // A kill for memory, or what could not be started, is never another worker's fault.
  if (evidence.kind > EvidenceKind::memory_kill)
    evidence.victim_phrase = std::string(victim_phrase(evidence.text));
  evidence.timed_out = !evidence.victim_phrase.empty() && is_time_out(evidence.text);
  return evidence;
}

}  // namespace ddprun::agent
