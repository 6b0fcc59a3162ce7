#include "launcher/ssh/find_program.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace ddprun::launcher {

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return access(name.c_str(), X_OK) == 0 ? name : "";
  const char* const path = std::getenv("PATH");
  std::string_view folders = path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
  while (!folders.empty()) {
    const auto end = std::min(folders.find(':'), folders.size());
    const std::string file = std::string(folders.substr(0, end)) + "/" + name;
    folders.remove_prefix(std::min(end + 1, folders.size()));
    if (file.front() == '/' && access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

}  // namespace ddprun::launcher
