#include "launcher/plan/secret_path.hpp"

namespace ddprun::launcher {

std::string secret_path(const LaunchOptions& options, const Environment& environment) {
  if (!options.secret_file.empty()) return options.secret_file;
  // A relative path counts as not set (XDG Base Directory Specification).
  if (const auto folder = lookup(environment, "XDG_CONFIG_HOME");
      folder && folder->starts_with('/'))
    return *folder + "/ddprun/secret";
  const auto home = lookup(environment, "HOME");
  return home && home->starts_with('/') ? *home + "/.config/ddprun/secret" : std::string();
}

}  // namespace ddprun::launcher
