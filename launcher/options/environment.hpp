// A snapshot of environment variables, so that what is decided from them can be tested with any.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher {

using Environment = std::map<std::string, std::string, std::less<>>;

/// The variables in `block`, which ends with a null pointer, as `environ` does. Of a name that
/// occurs twice the first counts, as for getenv.
inline Environment environment_from(const char* const* block) {
  Environment environment;
  for (; block != nullptr && *block != nullptr; ++block) {
    const std::string_view entry = *block;
    const auto equals = entry.find('=');
    if (equals != std::string_view::npos)
      environment.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return environment;
}

/// The variable's value; an empty one is a value.
inline std::optional<std::string> lookup(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  if (found == environment.end()) return std::nullopt;
  return found->second;
}

}  // namespace ddprun::launcher
