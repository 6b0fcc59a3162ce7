// A text that is one number.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace ddprun {

/// The number that all of `text` is, without a plus sign or blanks; none: it is something else, or
/// beyond the range of `Number`. Of floating-point numbers also "nan" and "inf".
template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

}  // namespace ddprun
