// `$name` and `${name}` in a text. The rules are those of Python's string.Template.safe_substitute,
// which torchrun uses for arguments and prefixes.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

struct Substitution {
  std::string_view name;
  std::string_view value;
};

/// Names become values, `$$` becomes `$`; unknown names and single `$` stay as they are.
std::string substitute(std::string_view text, std::span<const Substitution> substitutions);

/// Whether `$name` or `${name}` stands there, also with its `$` doubled.
bool has_placeholder(std::string_view text, std::string_view name);

/// The names that stand in `${...}`, in order; a caller that knows them all can tell a mistake.
std::vector<std::string> braced_names(std::string_view text);

}  // namespace ddprun
