// What a cluster's scheduler says, in place of options that were not given. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cluster/cluster_node.hpp"
#include "launcher/options/options.hpp"

namespace ddprun::launcher {

/// An option that was not given, as text, and the variables that its value comes from.
struct ClusterValue {
  std::string option;  ///< "--nnodes"
  std::string value;
  std::string variable;
};

/// What was taken of the scheduler, and what options cannot express.
struct ClusterUse {
  std::string scheduler;  ///< for people; empty: nothing was taken
  std::vector<ClusterValue> values;
  /// Where the nodes look for the rendezvous, at the host of --rdzv-endpoint, in this order. Empty:
  /// at its port.
  std::vector<std::uint16_t> ports;
  /// Whether the rendezvous is on this node; none: its address says so.
  std::optional<bool> is_first_host;
  std::string hint;  ///< a line for people; empty: none
};

struct ClusterChoice {
  LaunchOptions options;
  ClusterUse use;
};

/// `options` and what the scheduler says about those that were not given. Errors: the scheduler's
/// variables are needed and wrong, or an address is missing that it does not give.
LaunchResult<ClusterChoice> with_cluster(LaunchOptions options, const Environment& environment);

inline constexpr std::uint16_t kPortCandidates = 8;

/// From the run id, so that all nodes find the same ones: eight in a row from 20000 to 29399, below
/// the usual ports of rdzvd and torchrun and those that the kernel gives to connections; or as many
/// of `bounds`. Jobs with other run ids have either the same ones or none in common.
std::vector<std::uint16_t> port_candidates(std::string_view run_id,
                                           const std::optional<PortBounds>& bounds);

}  // namespace ddprun::launcher
