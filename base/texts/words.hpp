// Lists of words as one text: `a|b|c`.
#pragma once

#include <string_view>
#include <vector>

namespace ddprun {

/// `a|b` taken apart.
inline std::vector<std::string_view> words_of(std::string_view list) {
  std::vector<std::string_view> words;
  while (!list.empty()) {
    const auto end = list.find('|');
    words.push_back(list.substr(0, end));
    list = end == std::string_view::npos ? std::string_view() : list.substr(end + 1);
  }
  return words;
}

}  // namespace ddprun
