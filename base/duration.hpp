// Durations as people write them, the same in every option and variable of every program, and as
// numbers of seconds. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace ddprun {

inline constexpr std::string_view kDurationExamples = "as in 30, 0.5, 500ms, 2m or 1h";

/// A decimal number that is not negative, then its unit: ms, s, m or h in any case; seconds without
/// one. Blanks may stand around both, and a plus before them. None: the text has another form, or
/// is above a billion seconds. Nothing above zero is rounded to zero.
std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text);

inline double seconds_between(std::chrono::steady_clock::time_point from,
                              std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace ddprun
