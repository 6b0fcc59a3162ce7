#include "launcher/cluster/port_candidates.hpp"

#include <algorithm>
#include <span>

#include "base/hash_bytes.hpp"

namespace ddprun::launcher {

std::vector<std::uint16_t> port_candidates(std::string_view run_id,
                                           const std::optional<PortBounds>& bounds) {
  const PortBounds all = bounds.value_or(PortBounds{20'000, 29'399});
  const std::uint32_t ports = all.last - all.first + 1U;
  const std::uint32_t groups = std::max(ports / kPortCandidates, 1U);
  const std::uint64_t hash = hash_bytes(std::as_bytes(std::span(run_id)), run_id.size());
  const std::uint32_t first =
      all.first + static_cast<std::uint32_t>(hash % groups) * kPortCandidates;
  std::vector<std::uint16_t> candidates;
  for (std::uint32_t port = first; port <= all.last && port < first + kPortCandidates; ++port)
    candidates.push_back(static_cast<std::uint16_t>(port));
  return candidates;
}

}  // namespace ddprun::launcher
