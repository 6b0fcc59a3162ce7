// A port for a worker to listen on: when the worker of rank 0 serves the store itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "agent/config.hpp"
#include "base/result.hpp"

namespace ddprun::agent {

/// A free TCP port of `host` (a numeric address) that the kernel gives to no other process for
/// about a minute, and that a listener with SO_REUSEADDR, as every PyTorch has, may still take: it
/// is left in TIME_WAIT. Of `ports`, where that is given. Errors: the system's.
Result<std::uint16_t> reserve_port(const std::string& host, const std::optional<PortRange>& ports);

}  // namespace ddprun::agent
