// The two ends of a control connection in the simulation, and how long what they send takes.
#pragma once

#include "proto/control_channel.hpp"
#include "tests/sim/world.hpp"

namespace ddprun::sim {

inline constexpr const char* kRunId = "job";
inline constexpr Duration kDelayMost = std::chrono::milliseconds(2);
/// Of a cut network, by the kernel, which sends again.
inline constexpr Duration kHealingNoticed = std::chrono::milliseconds(200);

proto::ControlChannel channel_of(World& world, proto::Side side);

}  // namespace ddprun::sim
