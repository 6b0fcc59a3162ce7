// Words as a shell needs them to be typed. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// `word` as one word for any login shell: sh and its relatives, csh, fish. What needs no quotes
/// stays as it is. Only csh cannot take a newline in a word.
std::string shell_word(std::string_view word);

/// A command line of `words`.
std::string shell_words(const std::vector<std::string>& words);

}  // namespace ddprun
