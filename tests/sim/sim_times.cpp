// What must hold of the times that the nodes of a simulated job tell, and of the culprit.
#include <algorithm>

#include <fmt/format.h>

#include "tests/sim/sim_job.hpp"

namespace ddprun::sim {

using namespace std::chrono_literals;

void SimJob::RoundSeen::tell(const proto::AgentId& agent,
                             const std::optional<proto::JobTime>& began) {
  if (!began) return;
  auto& known = uncertainties[began->clock][agent];
  known = std::max(known, began->uncertainty);
  clock = began->clock;
}

bool SimJob::RoundSeen::has_told(const proto::AgentId& agent) const {
  return std::any_of(uncertainties.begin(), uncertainties.end(),
                     [&](const auto& told) { return told.second.contains(agent); });
}

/// By the newest clock; of a time by another one also by that of a node that has told both. None:
/// there is none.
std::optional<std::chrono::nanoseconds> SimJob::RoundSeen::uncertainty_of(
    const proto::AgentId& agent) const {
  const auto newest = uncertainties.find(clock);
  if (newest == uncertainties.end()) return std::nullopt;
  if (const auto own = newest->second.find(agent); own != newest->second.end()) return own->second;
  std::optional<std::chrono::nanoseconds> most;
  for (const auto& [other, told] : uncertainties) {
    const auto own = told.find(agent);
    if (own == told.end()) continue;
    for (const auto& [node, uncertainty] : told) {
      const auto both = newest->second.find(node);
      if (both != newest->second.end())
        most = std::max(most.value_or(0ns), own->second + uncertainty + both->second);
    }
  }
  return most;
}

/// A round is judged when the times of all failures can be compared, but those of lost nodes.
void SimJob::check_times() {
  if (rounds_.empty()) return;
  const RoundSeen& newest = rounds_.rbegin()->second;
  for (const auto& [session, unused] : rendezvous_.job()->sessions())
    require(!newest.has_told(session) || newest.uncertainty_of(session),
            session + " has told its time before the round is judged");
}

/// Where workers fail in the same way, the culprit is the one that was first, as exactly as clocks
/// can tell. What a lost node knew is lost with it.
void SimJob::check_culprit(const RoundSeen& round, const proto::FailedWorker& culprit) {
  constexpr Duration kClocksTell = 10ms;
  const bool can_tell = !faults_.clocks_differ && !faults_.service_forgets &&
                        harmed_until_ < round.formed_at && !round.failed.empty() &&
                        culprit.failure.evidence.kind == proto::EvidenceKind::exception_line;
  if (!can_tell) return;
  ++history_.culprits;
  const proto::AgentId& own = agent_of(culprit.agent).id;
  const auto found = round.failed.find({own, culprit.failure.local_rank});
  if (found == round.failed.end())
    return require(false, "the culprit is no victim: " + culprit.agent);
  // That of a lost node may be known to a clock only with which none can be compared.
  const auto uncertainty_of = [&](const proto::AgentId& agent) {
    return round.uncertainty_of(agent).value_or(1h);
  };
  // A time as it is told may be wrong by its uncertainty, and is compared within that once more.
  for (const auto& [worker, failed_at] : round.failed)
    require(found->second <=
                failed_at + 2 * (uncertainty_of(worker.agent) + uncertainty_of(own)) + kClocksTell,
            fmt::format("{} failed before {}", worker.agent, culprit.agent));
}

}  // namespace ddprun::sim
