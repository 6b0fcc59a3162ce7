#include "launcher/plan/secret_path.hpp"

#include "base/secret_file.hpp"

namespace ddprun::launcher {

std::string secret_path(const LaunchOptions& options, const Environment& environment) {
  if (!options.rendezvous.secret_file.empty()) return options.rendezvous.secret_file;
  return default_secret_path(lookup(environment, "XDG_CONFIG_HOME"), lookup(environment, "HOME"));
}

}  // namespace ddprun::launcher
