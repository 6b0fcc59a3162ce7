// The examples of options, for tests that give them to the program's own parser.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::test {

/// The words of a command line, up to a pipe or a redirection. Single quotes are removed; blanks
/// within them do not end the word.
inline std::vector<std::string> words_of_command(std::string_view command) {
  std::vector<std::string> words;
  std::string word;
  bool quoted = false;
  for (const char c : std::string(command) + " ") {
    if (c == '\'') {
      quoted = !quoted;
    } else if (c != ' ' || quoted) {
      word += c;
    } else if (!word.empty()) {
      if (word == "|" || word == ">") break;
      words.push_back(std::move(word));
      word.clear();
    }
  }
  return words;
}

/// What follows `program` in the command line; empty if it does not occur.
inline std::vector<std::string> arguments_after(std::string_view program,
                                                std::string_view command) {
  const std::vector<std::string> words = words_of_command(command);
  const auto found = std::find(words.begin(), words.end(), program);
  return {found == words.end() ? found : found + 1, words.end()};
}

/// One of the words is the option, alone or with a value behind =.
inline bool names_option(const std::vector<std::string>& words, std::string_view option) {
  return std::any_of(words.begin(), words.end(), [option](std::string_view word) {
    return word.substr(0, word.find('=')) == option;
  });
}

}  // namespace ddprun::test
