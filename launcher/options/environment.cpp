#include "launcher/options/environment.hpp"

#include <cstring>

namespace ddprun::launcher {

Environment environment_from(const char* const* block) {
  Environment environment;
  for (; block != nullptr && *block != nullptr; ++block) {
    const char* equals = std::strchr(*block, '=');
    if (equals == nullptr) continue;
    environment.emplace(std::string(*block, equals), std::string(equals + 1));
  }
  return environment;
}

}  // namespace ddprun::launcher
