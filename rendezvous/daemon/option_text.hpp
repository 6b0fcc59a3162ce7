// The options of rdzvd as data, and the texts that are made from them. Pure.
#pragma once

#include <string>
#include <vector>

namespace ddprun::rdzv {

struct OptionText {
  std::vector<std::string> names;  ///< "-h", "--help"
  std::string value;               ///< "HOST:PORT"; empty for a flag
  std::string help;
  std::string group;
  std::vector<std::string> words;  ///< what the value can be, where that is a list
};

/// The man page in section 8, in roff. `introduction` and `examples` are plain text.
std::string man_page(const std::vector<OptionText>& options);

/// The completion script of a shell: "bash", "zsh" or "fish". Empty for another name.
std::string completion(const std::vector<OptionText>& options, const std::string& shell);

}  // namespace ddprun::rdzv
