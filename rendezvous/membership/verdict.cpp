#include "rendezvous/membership/verdict.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "base/assert.hpp"
#include "base/exit_codes.hpp"
#include "proto/failure_text.hpp"

namespace ddprun::rdzv {

using proto::EvidenceKind;
using proto::FailedWorker;

std::string_view to_string(EvidenceKind kind) {
  static constexpr std::array<std::string_view, 8> kNames{
      "not_started", "memory_kill",    "fatal_signal", "hang",
      "error_file",  "exception_line", "own_exit",     "late_exit"};
  return kNames.at(static_cast<std::size_t>(kind));
}

namespace {

/// Smaller: more of a culprit, whenever it failed.
std::pair<bool, int> guilt(const FailedWorker& worker) {
  const proto::Evidence& evidence = worker.failure.evidence;
  const bool late = evidence.kind == EvidenceKind::late_exit || evidence.after_stop;
  const bool strong = evidence.kind <= EvidenceKind::hang && !late;
  const int weight = strong ? 0 : late ? 2 : 1;
  return {!evidence.victim_phrase.empty(), weight};
}

using Candidates = std::vector<std::vector<FailedWorker>::iterator>;

/// The first one of each node, of the most guilty ones: workers of a node have one clock.
Candidates first_of_nodes(std::vector<FailedWorker>& failed) {
  const auto order = [](const FailedWorker& worker) {
    return std::tuple(guilt(worker), worker.failure.evidence.at, worker.rank);
  };
  std::map<std::string_view, std::vector<FailedWorker>::iterator> firsts;
  std::pair most = guilt(failed.front());
  for (auto worker = failed.begin(); worker != failed.end(); ++worker) {
    most = std::min(most, guilt(*worker));
    const auto [first, is_new] = firsts.try_emplace(worker->agent, worker);
    if (!is_new && order(*worker) < order(*first->second)) first->second = worker;
  }
  Candidates candidates;
  for (const auto& [agent, first] : firsts)
    if (guilt(*first) == most) candidates.push_back(first);
  return candidates;
}

/// Keeps those of which none is known to have failed later than another. Overlapping times are not
/// transitive, so each is compared with the earliest only.
void keep_earliest(Candidates& candidates) {
  std::chrono::nanoseconds no_later = std::chrono::nanoseconds::max();
  for (const auto& worker : candidates) {
    const proto::Evidence& evidence = worker->failure.evidence;
    no_later = std::min(no_later, evidence.at + evidence.uncertainty);
  }
  std::erase_if(candidates, [&](const auto& worker) {
    const proto::Evidence& evidence = worker->failure.evidence;
    return evidence.at - evidence.uncertainty > no_later;
  });
}

/// PyTorch's `[rank0]: ` and all other numbers differ between workers that fail alike.
std::string without_numbers(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit) result += c;
    if (digit && !result.ends_with('#')) result += '#';
  }
  const std::string_view prefix = "[rank#]: ";
  return result.starts_with(prefix) ? result.substr(prefix.size()) : result;
}

/// What a worker printed or wrote about its end; empty: nothing that was seen.
std::string last_message(const proto::WorkerFailure& failure) {
  if (!failure.error.empty()) return failure.error;
  if (!failure.evidence.text.empty()) return without_numbers(failure.evidence.text);
  const auto line = std::find_if(failure.last_lines.rbegin(), failure.last_lines.rend(),
                                 [](const std::string& text) { return !text.empty(); });
  return line == failure.last_lines.rend() ? std::string() : without_numbers(*line);
}

/// The newest traceback among its last lines; empty: none.
std::vector<std::string> last_traceback(const proto::WorkerFailure& failure) {
  std::vector<std::string> lines;
  for (const std::string& line : failure.last_lines) {
    std::string plain = without_numbers(line);
    if (plain.starts_with("Traceback (most recent call last)")) lines.clear();
    if (!lines.empty() || plain.starts_with("Traceback (most recent call last)"))
      lines.push_back(std::move(plain));
  }
  return lines;
}

/// Whether it was stopped in the middle of the culprit's traceback: what came of it is the
/// beginning of that. The first line alone is that of any traceback.
bool was_writing_the_same(const proto::WorkerFailure& culprit, const proto::WorkerFailure& other) {
  const proto::Evidence& evidence = other.evidence;
  if (!other.stopped_by_us || evidence.after_stop || !evidence.text.empty() ||
      evidence.kind != EvidenceKind::exception_line)
    return false;
  const auto part = last_traceback(other);
  const auto whole = last_traceback(culprit);
  if (part.size() < 2 || part.size() > whole.size()) return false;
  return std::equal(part.begin(), part.end() - 1, whole.begin()) &&
         whole[part.size() - 1].starts_with(part.back());
}

/// Whether it reports an error of its own: nothing that comes of a suspended peer or of our stop.
bool reports_own_error(const FailedWorker& worker) {
  const proto::Evidence& evidence = worker.failure.evidence;
  const bool own = evidence.kind <= EvidenceKind::fatal_signal ||
                   evidence.kind == EvidenceKind::error_file ||
                   evidence.kind == EvidenceKind::exception_line;
  return own && evidence.victim_phrase.empty() && !evidence.after_stop;
}

/// What the clocks leave open. Those that failed alike need no order.
std::optional<proto::CloseCall> close_call_of(const FailedWorker& culprit,
                                              const Candidates& candidates) {
  std::optional<proto::CloseCall> close;
  const proto::Evidence& evidence = culprit.failure.evidence;
  for (const auto& other : candidates) {
    if (&*other == &culprit || failed_alike(culprit.failure, other->failure)) continue;
    const auto within = evidence.uncertainty + other->failure.evidence.uncertainty;
    if (!close) {
      close = {other->rank, 0, within, other->failure.evidence.kind != evidence.kind};
    } else {
      ++close->more;
      close->within = std::max(close->within, within);
    }
  }
  return close;
}

/// The exit code of a worker that failed as the culprit did, and that we did not have to stop.
std::optional<int> code_of_one_alike(const proto::Verdict& verdict) {
  for (const proto::FailedWorker& worker : verdict.alike) {
    const proto::WorkerFailure& failure = worker.failure;
    if (!failure.stopped_by_us && !failure.exit.by_signal && !failure.exit.success())
      return failure.exit.value;
  }
  return std::nullopt;
}

proto::Suspect suspect_of(FailedWorker& worker) {
  proto::WorkerFailure& failure = worker.failure;
  return {std::move(worker.agent), worker.rank,
          proto::RunningWorker{.local_rank = failure.local_rank,
                               .pid = failure.pid,
                               .progress = std::move(failure.progress),
                               .stacks = std::move(failure.stacks),
                               .suspended = true}};
}

// From the end of a worker's connections to that of its process, which its node waits for
// (agent/node/node_machine.hpp).
constexpr std::chrono::milliseconds kProcessEndsWithin{600};

/// Those that had left when the first of the workers that failed lost them, as far as clocks can
/// tell.
std::vector<proto::EarlyEnd> ended_before(std::vector<proto::EarlyEnd> ended,
                                          const proto::Evidence& first) {
  const auto latest = first.at + first.uncertainty +
                      (first.timed_out ? std::chrono::nanoseconds(0) : kProcessEndsWithin);
  std::erase_if(ended, [&](const proto::EarlyEnd& one) { return one.worker.at > latest; });
  std::sort(ended.begin(), ended.end(),
            [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return ended;
}

/// The node of all these workers; empty: they are on several.
template <class Worker>
proto::AgentId node_of_all(const std::vector<Worker>& workers) {
  const proto::AgentId& first = workers.front().agent;
  const bool all_there = std::all_of(workers.begin(), workers.end(),
                                     [&](const Worker& worker) { return worker.agent == first; });
  return all_there ? first : proto::AgentId{};
}

}  // namespace

bool failed_alike(const proto::WorkerFailure& culprit, const proto::WorkerFailure& other) {
  if (culprit.evidence.kind == EvidenceKind::hang || other.evidence.kind == EvidenceKind::hang)
    return false;
  if (culprit.evidence.victim_phrase.empty() && !other.evidence.victim_phrase.empty()) return false;
  if (was_writing_the_same(culprit, other)) return true;
  const std::string message = last_message(culprit);
  if (message != last_message(other)) return false;
  if (!message.empty()) return true;
  // A crash that comes of our stopping the worker is no failure of its own.
  return culprit.exit == other.exit && !(other.exit.by_signal && other.evidence.after_stop);
}

proto::Verdict judge(std::vector<FailedWorker> failed, std::vector<proto::Suspect> still_ran,
                     std::vector<proto::EarlyEnd> ended) {
  DDPRUN_ASSERT(!failed.empty(), "a verdict needs a worker that failed");
  std::vector<proto::Suspect> suspended;
  if (std::any_of(failed.begin(), failed.end(), reports_own_error)) {
    std::erase_if(failed, [&](FailedWorker& worker) {
      if (!worker.failure.evidence.suspended || reports_own_error(worker)) return false;
      suspended.push_back(suspect_of(worker));
      return true;
    });
  }
  Candidates candidates = first_of_nodes(failed);
  keep_earliest(candidates);
  std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
    return std::pair(a->failure.evidence.kind, a->rank) <
           std::pair(b->failure.evidence.kind, b->rank);
  });
  const auto culprit = candidates.front();
  proto::Verdict verdict;
  verdict.close_call = close_call_of(*culprit, candidates);
  // A worker that times out and exits leaves others to lose it: these do not speak against a hang.
  const bool all_waited = std::all_of(failed.begin(), failed.end(), [](const FailedWorker& worker) {
    return !worker.failure.evidence.victim_phrase.empty();
  });
  const bool any_timed_out =
      std::any_of(failed.begin(), failed.end(),
                  [](const FailedWorker& worker) { return worker.failure.evidence.timed_out; });
  if (all_waited) verdict.ended = ended_before(std::move(ended), culprit->failure.evidence);
  if (!all_waited) {
    verdict.suspects = std::move(suspended);
  } else if (any_timed_out && verdict.ended.empty()) {
    verdict.suspects = std::move(still_ran);
  }
  std::sort(verdict.suspects.begin(), verdict.suspects.end(),
            [](const auto& a, const auto& b) { return a.rank < b.rank; });
  verdict.culprit = std::move(*culprit);
  failed.erase(culprit);
  std::sort(failed.begin(), failed.end(),
            [](const FailedWorker& a, const FailedWorker& b) { return a.rank < b.rank; });
  for (FailedWorker& worker : failed) {
    const bool alike = failed_alike(verdict.culprit.failure, worker.failure);
    (alike ? verdict.alike : verdict.victims).push_back(std::move(worker));
  }
  return verdict;
}

proto::AgentId failed_node(const proto::Verdict& verdict) {
  if (!verdict.ended.empty()) return node_of_all(verdict.ended);
  if (proto::name_of_suspects(verdict).empty()) return verdict.culprit.agent;
  if (const proto::Suspect* likely = proto::likely_suspect(verdict)) return likely->agent;
  return node_of_all(verdict.suspects);
}

int exit_code_of(const proto::Verdict& verdict) {
  const proto::WorkerFailure& culprit = verdict.culprit.failure;
  if (!culprit.error.empty()) return kExitNotExecutable;
  // A culprit that we stopped while it was still failing has no exit code of its own.
  const bool by_us = culprit.stopped_by_us || culprit.evidence.kind == EvidenceKind::hang;
  if (culprit.exit.success()) return 1;
  if (!culprit.exit.by_signal) return culprit.exit.value;
  if (by_us && (culprit.exit.value == SIGTERM || culprit.exit.value == SIGKILL))
    return code_of_one_alike(verdict).value_or(1);
  return kExitSignalBase + culprit.exit.value;
}

proto::WorkerFailure without_evidence(const proto::WorkerFailed& failed) {
  proto::WorkerFailure failure;
  failure.local_rank = failed.local_rank;
  failure.pid = failed.pid;
  failure.exit = failed.exit;
  failure.ran_for = failed.ran_for;
  failure.ended_at = failed.at;
  failure.error = failed.error;
  if (!failed.hang.empty())
    failure.evidence = {proto::EvidenceKind::hang, failed.at, failed.hang, ""};
  return failure;
}

bool is_guiltier(const FailedWorker& first, const FailedWorker& second) {
  return std::pair(guilt(first), first.failure.evidence.at) <
         std::pair(guilt(second), second.failure.evidence.at);
}

FailedWorker with_last_line(FailedWorker worker) {
  std::vector<std::string>& lines = worker.failure.last_lines;
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  if (lines.size() > 1) lines = {std::move(lines.back())};
  lines.shrink_to_fit();
  worker.failure.stacks = {};
  return worker;
}

FailedWorker without_lines(FailedWorker worker) {
  worker.failure.last_lines.clear();
  worker.failure.stacks.clear();
  return worker;
}

}  // namespace ddprun::rdzv
