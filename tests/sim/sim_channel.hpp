// The two ends of a control connection in the simulation, and what a link between them is like.
#pragma once

#include <string>

#include "proto/control_channel.hpp"
#include "tests/sim/world.hpp"

namespace ddprun::sim {

inline constexpr const char* kRunId = "job";
/// Until the kernel, which sends again, notices that a cut network is whole.
inline constexpr Duration kHealingNoticed = std::chrono::milliseconds(200);

/// Where an agent is, and what is between it and the service.
struct LinkPlan {
  std::string addr = "10.0.0.1";  ///< numeric, as the service sees it
  std::string secret = {};        ///< that the agent has; empty: none
  bool is_forwarded = false;      ///< by something with connections of its own
  Duration delay_most = std::chrono::milliseconds(2);
  Duration hiccup_most{0};  ///< now and then so much longer; 0: never
};

proto::ControlChannel channel_of(World& world, proto::Side side, const std::string& secret);

}  // namespace ddprun::sim
