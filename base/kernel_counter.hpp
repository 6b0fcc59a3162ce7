// One number out of the kernel's files of names and numbers: memory.stat, memory.events,
// /proc/vmstat, /proc/meminfo, /proc/self/status.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ddprun {

/// The number behind `name` and one or more blanks or tabs, in a text of such lines; what follows
/// the number does not count. For /proc/meminfo and status the name has its colon. None: no such
/// line, or no number in it. Pure.
std::optional<std::uint64_t> counter_in(std::string_view text, std::string_view name);

}  // namespace ddprun
