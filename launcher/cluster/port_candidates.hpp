// Ports at which the nodes of a job look for its rendezvous, where nobody has named one.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "launcher/options/options.hpp"

namespace ddprun::launcher {

inline constexpr std::uint16_t kPortCandidates = 8;

/// From the run id, so that all nodes find the same ones: eight in a row from 20000 to 29399, below
/// the usual ports of rdzvd and torchrun and those that the kernel gives to connections; or as many
/// of `bounds`. Jobs with other run ids have either the same ones or none in common.
std::vector<std::uint16_t> port_candidates(std::string_view run_id,
                                           const std::optional<PortBounds>& bounds);

}  // namespace ddprun::launcher
