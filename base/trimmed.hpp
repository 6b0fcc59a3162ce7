// A text without what surrounds it. Pure.
#pragma once

#include <string_view>

namespace ddprun {

/// Without blanks, tabs and ends of lines around it.
constexpr std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\r\f\v";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace ddprun
