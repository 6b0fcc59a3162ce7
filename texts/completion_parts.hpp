// What the completions of all shells are made with. For the files beside this one alone.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "texts/program_text.hpp"

namespace ddprun::completions {

bool takes_value(const OptionText& option);
bool is_value_optional(const OptionText& option);
/// A value that may stand in the next word is needed.
bool takes_next_word(const OptionText& option);
/// The words to offer as its value.
std::vector<std::string> values_of(const ProgramText& program, const OptionText& option);

bool is_folder(const OptionText& option);
bool is_file(const OptionText& option);
/// `-h`.
bool is_short(const std::string& name);

/// For use inside single quotes; a backslash before each of `special`.
std::string escaped(std::string_view text, std::string_view special, std::string_view quote);

/// @NAME@, @WITH_VALUE@ and so on become their values.
std::string filled(std::string_view form,
                   const std::vector<std::pair<std::string_view, std::string>>& values);

std::string fish_script(const ProgramText& program);

}  // namespace ddprun::completions
