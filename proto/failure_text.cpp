#include "proto/failure_text.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

#include <fmt/format.h>

#include "base/describe.hpp"
#include "base/printable.hpp"

namespace ddprun::proto {

using ddprun::describe;

namespace {

constexpr std::size_t kCauseBytesMax = 120;
constexpr std::size_t kSuspectsNamed = 4;  // a line is short, and the report has them all

/// " 1, 2, 3, 4 and 12 more".
std::string first_ranks(const auto& workers) {
  std::string text;
  const std::size_t named = std::min(workers.size(), kSuspectsNamed);
  for (std::size_t i = 0; i < named; ++i)
    text += fmt::format("{} {}", i > 0 ? "," : "", workers[i].rank);
  if (named < workers.size()) text += fmt::format(" and {} more", workers.size() - named);
  return text;
}

/// "rank 1 on node1".
std::string name_of_one(const auto& worker) {
  return fmt::format("rank {}{}", worker.rank, worker.node.empty() ? "" : " on " + worker.node);
}

/// Both have reported a step.
bool is_behind(const Suspect& one, const Suspect& other) {
  return one.worker.progress->step < other.worker.progress->step;
}

}  // namespace

std::string_view name_of(Finished::Outcome outcome) {
  switch (outcome) {
    case Finished::Outcome::succeeded:
      return "succeeded";
    case Finished::Outcome::failed:
      return "failed";
    case Finished::Outcome::cancelled:
      return "cancelled";
  }
  return "";
}

std::string describe(const WorkerFailure& failure) {
  if (!failure.error.empty()) return fmt::format("could not be started: {}", failure.error);
  if (failure.evidence.kind == EvidenceKind::hang) {
    if (!failure.stopped_by_us) return "hangs: " + failure.evidence.text;
    return fmt::format("hung {} after the start of the round and was stopped ({})",
                       describe(failure.evidence.at), describe(failure.exit));
  }
  if (failure.stopped_by_us) {
    return fmt::format("failed after {} and was stopped ({})", describe(failure.evidence.at),
                       describe(failure.exit));
  }
  return fmt::format("{} after {}", describe(failure.exit), describe(failure.ended_at));
}

std::string cause_of(const WorkerFailure& failure) {
  const Evidence& evidence = failure.evidence;
  if (!failure.error.empty()) return "";  // described
  if (evidence.kind == EvidenceKind::hang && !failure.stopped_by_us) return "";
  if (evidence.kind == EvidenceKind::memory_kill)
    return "the kernel killed it because memory was full";
  std::string_view rest = evidence.text;
  std::string text;
  while (!rest.empty()) {
    const std::size_t bytes = std::max<std::size_t>(1, utf8_character_bytes(rest));
    if (text.size() + bytes > kCauseBytesMax) return text + "...";
    text += rest.substr(0, bytes);
    rest.remove_prefix(bytes);
  }
  return text;
}

std::string describe(const FailedWorker& worker) {
  const std::string at = worker.node.empty() ? "" : " on " + worker.node;
  return fmt::format("rank {}{} {}", worker.rank, at, describe(worker.failure));
}

const Suspect* likely_suspect(const Verdict& verdict) {
  const std::vector<Suspect>& suspects = verdict.suspects;
  // A signal held those that are suspended: they do not hang, and did not cause the failure.
  if (suspects.empty() || suspects.front().worker.suspended) return nullptr;
  if (suspects.size() == 1) return &suspects.front();
  const bool all_known = std::all_of(suspects.begin(), suspects.end(), [](const Suspect& suspect) {
    return suspect.worker.progress.has_value();
  });
  if (!all_known) return nullptr;
  const auto last = std::min_element(suspects.begin(), suspects.end(), is_behind);
  const auto ahead = std::count_if(suspects.begin(), suspects.end(), [&](const Suspect& suspect) {
    return is_behind(*last, suspect);
  });
  return ahead + 1 == std::ssize(suspects) ? &*last : nullptr;
}

std::string name_of_suspects(const Verdict& verdict) {
  const std::vector<Suspect>& suspects = verdict.suspects;
  if (suspects.empty() || suspects.front().worker.suspended) return "";
  if (const Suspect* one = likely_suspect(verdict)) return name_of_one(*one);
  return "one of ranks" + first_ranks(suspects);
}

std::string name_of_ended(const Verdict& verdict) {
  if (verdict.ended.empty()) return "";
  if (verdict.ended.size() == 1) return name_of_one(verdict.ended.front());
  return "ranks" + first_ranks(verdict.ended);
}

std::string describe(const Verdict& verdict) {
  const std::string suspects = name_of_suspects(verdict);
  const std::string ended = name_of_ended(verdict);
  return describe(verdict.culprit) + (suspects.empty() ? "" : "; " + suspects + " probably hangs") +
         (ended.empty() ? "" : "; " + ended + " had ended with exit code 0");
}

std::string name_of(const LostNode& lost) {
  const int last = lost.first_rank + lost.workers - 1;
  if (lost.workers == 1) return fmt::format("{} (rank {})", lost.node, last);
  return fmt::format("{} (ranks {} {} {})", lost.node, lost.first_rank,
                     lost.workers == 2 ? "and" : "to", last);
}

std::string sign_of(const LostNode& lost) {
  switch (lost.sign) {
    case LossSign::ended:
      return "its connection ended";
    case LossSign::silent:
      return fmt::format("it has not answered for {}{}", describe(lost.silent_for),
                         lost.silent_for_longer
                             ? " or longer, since before the rendezvous was started again"
                             : "");
    case LossSign::cut_off:
      return "it was cut off for longer than its lease";
    case LossSign::rebooted:
      return "its machine was started again";
    case LossSign::fenced:
      return "rdzvd --fence gave it up";
  }
  return "";
}

std::string describe(const LostNode& lost) {
  std::string text = fmt::format("{} was lost: {}", name_of(lost), sign_of(lost));
  if (lost.more > 0)
    text += fmt::format("; so {} {} more node{}", lost.more == 1 ? "was" : "were", lost.more,
                        lost.more == 1 ? "" : "s");
  return text;
}

}  // namespace ddprun::proto
