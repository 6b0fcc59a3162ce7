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
Environment environment_from(const char* const* block);

/// The variable's value; an empty one is a value.
inline std::optional<std::string> lookup(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  if (found == environment.end()) return std::nullopt;
  return found->second;
}

}  // namespace ddprun::launcher
