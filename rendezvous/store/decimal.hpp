// Stored decimals, as ADD and BARRIER read them.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace ddprun::rdzv {

/// The number at the front of `text`, by the rules of C's strtoll in base 10: white space, a sign,
/// digits; what comes behind the digits is ignored. None if there is no digit or the number is
/// outside 64 bits.
inline std::optional<std::int64_t> parse_decimal(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\n\v\f\r");
  if (begin == std::string_view::npos) return std::nullopt;
  text.remove_prefix(begin);
  if (text.front() == '+') {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;  // from_chars would take a second sign
  }
  std::int64_t value = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc{})
    return std::nullopt;
  return value;
}

}  // namespace ddprun::rdzv
