// Names and words in whatever case they were typed. Pure.
#pragma once

#include <algorithm>
#include <string>

namespace ddprun {

/// Of ASCII letters; other bytes stay.
inline std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

}  // namespace ddprun
