#include "base/shell_word.hpp"

namespace ddprun {
namespace {

constexpr std::string_view kPlain =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
// In front, zsh takes the one for a command's path, fish the other for a process.
constexpr std::string_view kNotInFront = "=%";
// Within single quotes only the single quote is special to sh, the backslash also to fish, and the
// exclamation mark also to csh. To all of them a backslash outside quotes keeps what follows.
constexpr std::string_view kOutsideQuotes = "'\\!";

}  // namespace

std::string shell_word(std::string_view word) {
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos &&
      kNotInFront.find(word.front()) == std::string_view::npos)
    return std::string(word);
  std::string text = "'";
  for (const char c : word) {
    if (kOutsideQuotes.find(c) == std::string_view::npos) {
      text += c;
    } else {
      text += "'\\";
      text += c;
      text += '\'';
    }
  }
  return text + "'";
}

std::string shell_words(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ' ';
    text += shell_word(word);
  }
  return text;
}

}  // namespace ddprun
