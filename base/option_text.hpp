// The options of a program of ours that uses CLI11 as data, and the texts that are made from them.
// Pure.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ddprun {

struct OptionText {
  std::vector<std::string> names;  ///< "-h", "--help"
  std::string value;               ///< "HOST:PORT"; empty for a flag. DIR is completed as a folder
  std::string help;
  std::string group;
  std::vector<std::string> words;  ///< what the value can be, where that is a list
};

/// The options of `app` in their order; `words` has the values of those that take one of a list, by
/// long name without dashes.
std::vector<OptionText> option_texts(const CLI::App& app,
                                     const std::map<std::string, std::vector<std::string>>& words);

/// Gives `app` the help of our programs: names up to `column`, one empty line between groups, and
/// nothing that a person has not written.
void set_help_format(CLI::App& app, std::size_t column);

/// The message of a CLI11 error in one line; of a missing value what the option needs.
std::string parse_error_text(const CLI::App& app, std::string message);

/// What a man page has around its options: roff, from the first .SH on.
struct ManPage {
  std::string name;
  int section = 1;
  std::string begin;
  std::string end;
};

std::string man_page(const ManPage& page, const std::vector<OptionText>& options);

/// The completion script of a shell: "bash", "zsh" or "fish". Empty for another name. Bash's
/// function is `_ddprun_PROGRAM`; it looks only at the word that is typed and the one before.
std::string completion(const std::string& program, const std::vector<OptionText>& options,
                       const std::string& shell);

}  // namespace ddprun
