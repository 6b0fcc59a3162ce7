// Lists of words as one text, `a|b|c`, and the words of enumerations: one table is what an option
// offers, what its parser understands and what a message prints.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
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

/// One of the words of `list`.
constexpr bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const auto end = list.find('|');
    if (list.substr(0, end) == word) return true;
    list = end == std::string_view::npos ? std::string_view() : list.substr(end + 1);
  }
  return false;
}

template <class Enum>
struct Word {
  Enum value;
  std::string_view word;
  std::string_view also = {};  ///< other words for it, `a|b`: understood, but not offered
};
template <class Enum>
Word(Enum, std::string_view) -> Word<Enum>;  // clang 14 does not deduce aggregates
template <class Enum>
Word(Enum, std::string_view, std::string_view) -> Word<Enum>;

/// The table of an enumeration. It comes from a function in the enumeration's namespace:
/// `constexpr auto words_for(Colour) { return std::array{Word{Colour::red, "red"}, ...}; }`.
template <class Enum>
inline constexpr auto kWords = words_for(Enum{});

template <class Enum>
constexpr std::string_view word_of(Enum value) {
  for (const auto& entry : kWords<Enum>) {
    if (entry.value == value) return entry.word;
  }
  return "";
}

template <class Enum>
constexpr std::optional<Enum> value_of(std::string_view word) {
  for (const auto& entry : kWords<Enum>) {
    if (entry.word == word || has_word(entry.also, word)) return entry.value;
  }
  return std::nullopt;
}

/// The bytes of `choices`.
template <class Enum>
inline constexpr auto kChoiceBytes = [] {
  constexpr std::size_t size = [] {
    std::size_t bytes = kWords<Enum>.size() - 1;
    for (const auto& entry : kWords<Enum>) bytes += entry.word.size();
    return bytes;
  }();
  std::array<char, size> bytes{};
  std::size_t end = 0;
  for (const auto& entry : kWords<Enum>) {
    if (end > 0) bytes[end++] = '|';
    for (const char c : entry.word) bytes[end++] = c;
  }
  return bytes;
}();

/// All words of the enumeration, `a|b|c`.
template <class Enum>
inline constexpr std::string_view choices{kChoiceBytes<Enum>.data(), kChoiceBytes<Enum>.size()};

}  // namespace ddprun
