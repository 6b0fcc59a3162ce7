// Names of folders that begin with date and time, so that `ls` shows the newest one last.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

inline constexpr std::size_t kTimeStampBytes = 19;

/// Local time: `2026-11-28_17-15-33`.
std::string time_stamp(std::chrono::system_clock::time_point time);

/// Whether it begins with one.
bool begins_with_time_stamp(std::string_view name);

}  // namespace ddprun
