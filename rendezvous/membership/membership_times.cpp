// The times of several nodes, by one clock.
#include <algorithm>

#include "rendezvous/membership/membership.hpp"

namespace ddprun::rdzv {

using proto::AgentId;

void Membership::note_began(const AgentId& agent,
                            const std::optional<proto::JobTime>& round_began) {
  if (!round_began) return;
  began_[agent] = *round_began;
  clock_ = round_began->clock;
}

bool Membership::is_comparable(const proto::JobTime& time) const { return time.clock == clock_; }

/// A node that has told its failures to the service before this one, which had another clock, tells
/// its time again as soon as it is back. The next round waits for it anyhow.
bool Membership::awaits_times() const {
  return std::any_of(began_.begin(), began_.end(), [this](const auto& one) {
    const auto& [agent, began] = one;
    return !is_comparable(began) && began.clock != 0 && members_.contains(agent);
  });
}

/// The times of failures count from the round's start on their own node: from here on, from that on
/// the first of these nodes. Of a node that is lost and had told it by another clock, they are
/// certain to the length of the round only.
void Membership::put_in_job_time() {
  auto first = std::chrono::nanoseconds::max();
  std::chrono::nanoseconds longest{0};
  for (const auto& [rank, worker] : failed_) {
    longest = std::max(longest, worker.failure.evidence.at);
    const auto began = began_.find(worker.agent);
    if (began != began_.end() && is_comparable(began->second))
      first = std::min(first, began->second.at);
  }
  for (auto& [rank, worker] : failed_) {
    const auto began = began_.find(worker.agent);
    if (began == began_.end()) continue;
    if (!is_comparable(began->second)) {
      worker.failure.evidence.uncertainty = longest;
      continue;
    }
    const auto later = began->second.at - first;
    worker.failure.evidence.at += later;
    worker.failure.evidence.uncertainty = began->second.uncertainty;
    worker.failure.ended_at += later;
  }
}

}  // namespace ddprun::rdzv
