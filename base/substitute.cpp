#include "base/substitute.hpp"

#include <algorithm>

namespace ddprun {
namespace {

bool is_name_start(char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_name_part(char c) { return is_name_start(c) || (c >= '0' && c <= '9'); }

/// The name at the front of `text`; empty: none.
std::string_view leading_name(std::string_view text) {
  if (text.empty() || !is_name_start(text.front())) return {};
  const auto end = std::find_if_not(text.begin(), text.end(), is_name_part);
  return text.substr(0, static_cast<std::size_t>(end - text.begin()));
}

}  // namespace

std::string substitute(std::string_view text, std::span<const Substitution> substitutions) {
  std::string result;
  while (!text.empty()) {
    const auto dollar = text.find('$');
    result += text.substr(0, dollar);
    if (dollar == std::string_view::npos) break;
    text.remove_prefix(dollar + 1);
    if (text.starts_with('$')) {
      result += '$';
      text.remove_prefix(1);
      continue;
    }
    const bool braced = text.starts_with('{');
    const auto name = leading_name(text.substr(braced ? 1 : 0));
    const std::size_t length = name.size() + (braced ? 2 : 0);
    const bool whole =
        !name.empty() && (!braced || (text.size() >= length && text[length - 1] == '}'));
    const auto known =
        std::find_if(substitutions.begin(), substitutions.end(),
                     [&](const Substitution& entry) { return whole && entry.name == name; });
    if (known == substitutions.end()) {
      result += '$';  // stays, with what is behind it
      continue;
    }
    result += known->value;
    text.remove_prefix(length);
  }
  return result;
}

bool has_placeholder(std::string_view text, std::string_view name) {
  for (auto dollar = text.find('$'); dollar != std::string_view::npos;
       dollar = text.find('$', dollar + 1)) {
    const std::string_view behind = text.substr(dollar + 1);
    const bool braced = behind.starts_with('{');
    if (leading_name(behind.substr(braced ? 1 : 0)) != name) continue;
    if (!braced || behind.substr(1 + name.size()).starts_with('}')) return true;
  }
  return false;
}

std::vector<std::string> braced_names(std::string_view text) {
  std::vector<std::string> names;
  while (true) {
    const auto dollar = text.find('$');
    if (dollar == std::string_view::npos) return names;
    text.remove_prefix(dollar + 1);
    if (text.starts_with('$')) {
      text.remove_prefix(1);
    } else if (text.starts_with('{')) {
      const auto name = leading_name(text.substr(1));
      if (!name.empty() && text.substr(1 + name.size()).starts_with('}')) names.emplace_back(name);
    }
  }
}

}  // namespace ddprun
