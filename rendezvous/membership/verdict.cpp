#include "rendezvous/membership/verdict.hpp"

#include <algorithm>
#include <array>
#include <tuple>

#include "proto/assert.hpp"

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

/// Smaller: more of a culprit.
auto guilt(const FailedWorker& worker) {
  const proto::Evidence& evidence = worker.failure.evidence;
  const bool late = evidence.kind == EvidenceKind::late_exit || evidence.after_stop;
  const bool strong = evidence.kind <= EvidenceKind::hang && !late;
  return std::tuple(!evidence.victim_phrase.empty(),
                    strong ? 0
                    : late ? 2
                           : 1,
                    evidence.at, worker.rank);
}

}  // namespace

proto::Verdict judge(std::vector<FailedWorker> failed) {
  DDPRUN_ASSERT(!failed.empty(), "a verdict is about somebody who failed");
  const auto culprit = std::min_element(
      failed.begin(), failed.end(),
      [](const FailedWorker& a, const FailedWorker& b) { return guilt(a) < guilt(b); });
  proto::Verdict verdict;
  verdict.culprit = std::move(*culprit);
  failed.erase(culprit);
  std::sort(failed.begin(), failed.end(),
            [](const FailedWorker& a, const FailedWorker& b) { return a.rank < b.rank; });
  verdict.victims = std::move(failed);
  return verdict;
}

}  // namespace ddprun::rdzv
