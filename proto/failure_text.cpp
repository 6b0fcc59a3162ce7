#include "proto/failure_text.hpp"

#include <fmt/format.h>

#include "base/describe.hpp"

namespace ddprun::proto {

using ddprun::describe;

std::string describe(const WorkerFailure& failure) {
  if (!failure.error.empty()) return fmt::format("could not be started: {}", failure.error);
  if (failure.evidence.kind == EvidenceKind::hang) {
    if (!failure.stopped_by_us) return "hangs: " + failure.evidence.text;
    return fmt::format("hung {} into the round and was stopped ({})", describe(failure.evidence.at),
                       describe(failure.exit));
  }
  if (failure.stopped_by_us) {
    return fmt::format("failed after {} and was stopped ({})", describe(failure.evidence.at),
                       describe(failure.exit));
  }
  return fmt::format("{} after {}", describe(failure.exit), describe(failure.ended_at));
}

std::string describe(const FailedWorker& worker) {
  const std::string at = worker.node.empty() ? "" : " on " + worker.node;
  return fmt::format("rank {}{} {}", worker.rank, at, describe(worker.failure));
}

}  // namespace ddprun::proto
