// A number of bytes as people write it, the same in every option of every program. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ddprun {

inline constexpr std::string_view kByteCountExamples = "as in 500000, 64K, 100M or 2G";

/// A whole number from 1 on, perhaps with K, M or G behind it in any case: powers of 1024. Blanks
/// may stand around it. None: the text has another form, or is above 2^63 - 1.
std::optional<std::uint64_t> parse_byte_count(std::string_view text);

}  // namespace ddprun
