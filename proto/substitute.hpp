// `$name` and `${name}` in a text. The rules are those of Python's string.Template.safe_substitute,
// which torchrun uses for arguments and prefixes.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ddprun::proto {

struct Substitution {
  std::string_view name;
  std::string_view value;
};

/// Names become values, `$$` becomes `$`; unknown names and single `$` stay as they are.
std::string substitute(std::string_view text, std::span<const Substitution> substitutions);

}  // namespace ddprun::proto
