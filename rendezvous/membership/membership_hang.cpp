// Which worker hangs, where those of several nodes wait for one another.
#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "rendezvous/membership/membership.hpp"

namespace ddprun::rdzv {

namespace {

/// The slowest workers of the nodes, counted by their phases.
class Phases {
 public:
  void add(const proto::WorkerProgress& progress) {
    ++all_[progress.phase];
    ++of_step_[progress.step][progress.phase];
  }
  [[nodiscard]] int in_phase(const proto::WorkerProgress& progress) const {
    return all_.at(progress.phase);
  }
  /// Whether all others of its step, two or more, are together in one other phase, as
  /// agent/progress/progress_watch.cpp has it.
  [[nodiscard]] bool is_alone(const proto::WorkerProgress& progress) const {
    const auto& phases = of_step_.at(progress.step);
    if (phases.size() != 2 || phases.at(progress.phase) != 1) return false;
    return std::any_of(phases.begin(), phases.end(),
                       [](const auto& one) { return one.second > 1; });
  }

 private:
  std::map<std::string_view, int> all_;
  std::map<std::uint64_t, std::map<std::string_view, int>> of_step_;
};

bool waits_for_another(const proto::Evidence& evidence) {
  return evidence.kind == proto::EvidenceKind::hang && !evidence.suspended && !evidence.all_silent;
}

}  // namespace

/// A node where a hang was found knows its own workers only: they may wait for one elsewhere that
/// has been silent, too, and is further behind.
void Membership::blame_furthest_behind() {
  std::vector<proto::FailedWorker*> hangs;
  auto enough = std::chrono::nanoseconds::max();
  for (const SlowNode& node : slowest_) {
    const auto failed = failed_.find(node.rank);
    if (failed == failed_.end() || !waits_for_another(failed->second.failure.evidence)) continue;
    hangs.push_back(&failed->second);
    enough = std::min(enough, node.worker.silent_for / 2);
  }
  if (hangs.empty()) return;
  std::erase_if(slowest_, [&](const SlowNode& node) { return node.worker.silent_for < enough; });
  Phases phases;
  for (const SlowNode& node : slowest_) phases.add(*node.worker.as_hang.progress);
  const auto order = [&phases](const SlowNode& node) {
    const proto::WorkerProgress& progress = *node.worker.as_hang.progress;
    return std::tuple(progress.step, !phases.is_alone(progress), node.worker.place,
                      phases.in_phase(progress), -node.worker.silent_for, node.rank);
  };
  const auto last =
      std::min_element(slowest_.begin(), slowest_.end(),
                       [&](const SlowNode& a, const SlowNode& b) { return order(a) < order(b); });
  for (proto::FailedWorker* hang : hangs) {
    if (hang->rank != last->rank)
      hang->failure.evidence.victim_phrase = fmt::format("it waited for rank {}", last->rank);
  }
  failed_.try_emplace(
      last->rank, proto::FailedWorker{last->agent, last->rank, last->worker.as_hang, last->name});
}

}  // namespace ddprun::rdzv
