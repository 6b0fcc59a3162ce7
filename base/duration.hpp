// Durations and numbers of bytes as people write them, the same in every option of every program.
// Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
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

inline constexpr std::string_view kByteCountExamples = "as in 500000, 64K, 100M or 2G";

/// A whole number from 1 on, perhaps with K, M or G behind it in any case: powers of 1024. Blanks
/// may stand around it. None: the text has another form, or is above 2^63 - 1.
std::optional<std::uint64_t> parse_byte_count(std::string_view text);

/// "1.25 GB", in powers of 1000.
std::string bytes_text(std::uint64_t bytes);

}  // namespace ddprun
