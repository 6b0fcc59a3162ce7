// The times of several nodes, by one clock: that of the service which was told the newest one. The
// services before it may have had others.
#include <algorithm>

#include "rendezvous/membership/membership.hpp"

namespace ddprun::rdzv {

using proto::AgentId;
using proto::JobTime;

void Membership::note_began(const AgentId& agent, const std::optional<JobTime>& round_began) {
  if (!round_began) return;
  const auto before = began_.find(agent);
  if (before != began_.end()) move_times(JobTime(before->second), *round_began);
  began_[agent] = *round_began;
  if (round_began->clock != 0) clock_ = round_began->clock;
}

/// One instant by two clocks shows how they differ: so all that was told by the older one is known
/// by the newer one, too.
void Membership::move_times(const JobTime& from, const JobTime& to) {
  if (from.clock == to.clock || from.clock == 0 || to.clock == 0) return;
  const auto later = to.at - from.at;
  const auto uncertainty = from.uncertainty + to.uncertainty;
  for (auto& [agent, began] : began_)
    if (began.clock == from.clock)
      began = {began.at + later, began.uncertainty + uncertainty, to.clock};
  if (lost_at_.clock == from.clock)
    lost_at_ = {lost_at_.at + later, lost_at_.uncertainty + uncertainty, to.clock};
}

/// Agents and services of an older version do not say by which clock they tell a time.
bool Membership::is_comparable(const JobTime& time) const {
  return time.clock == clock_ || time.clock == 0 || clock_ == 0;
}

/// A node that has told its failures to the service before this one only tells its time again as
/// soon as it is back. It is waited for until then, or until it counts as lost.
bool Membership::awaits_times() const {
  return std::any_of(began_.begin(), began_.end(), [this](const auto& one) {
    return !is_comparable(one.second) && members_.contains(one.first);
  });
}

/// The times of failures count from the round's start on their own node: from here on, from that on
/// the first of these nodes. Where it is not known how a lost node's clock differs, they are
/// uncertain by the length of the round.
void Membership::put_in_job_time() {
  auto first = std::chrono::nanoseconds::max();
  for (const auto& [rank, worker] : failed_) {
    const auto began = began_.find(worker.agent);
    if (began != began_.end() && is_comparable(began->second))
      first = std::min(first, began->second.at);
  }
  std::chrono::nanoseconds length{0};
  for (auto& [rank, worker] : failed_) {
    const auto began = began_.find(worker.agent);
    if (began != began_.end() && is_comparable(began->second)) {
      const auto later = began->second.at - first;
      worker.failure.evidence.at += later;
      worker.failure.evidence.uncertainty = began->second.uncertainty;
      worker.failure.ended_at += later;
    }
    length = std::max(length, worker.failure.evidence.at);
  }
  for (auto& [rank, worker] : failed_) {
    const auto began = began_.find(worker.agent);
    if (began != began_.end() && !is_comparable(began->second))
      worker.failure.evidence.uncertainty = length;
  }
  // An end has no uncertainty that would show that its clock, or that of all failures, is another.
  std::erase_if(ended_, [this, first](const proto::EarlyEnd& ended) {
    const auto began = began_.find(ended.agent);
    if (began == began_.end()) return false;
    return !is_comparable(began->second) || first == std::chrono::nanoseconds::max();
  });
  for (proto::EarlyEnd& ended : ended_) {
    const auto began = began_.find(ended.agent);
    if (began != began_.end()) ended.worker.at += began->second.at - first;
  }
}

}  // namespace ddprun::rdzv
