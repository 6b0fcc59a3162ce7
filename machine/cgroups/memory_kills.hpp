// How often the kernel has killed for memory, by its own counters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::machine {

/// Kills for memory so far: those of our own cgroup where it counts them (version 2), else those of
/// the whole machine. None: the kernel does not say. `root` stands before every path.
std::optional<std::uint64_t> memory_kill_count(const std::string& root = "");

}  // namespace ddprun::machine
