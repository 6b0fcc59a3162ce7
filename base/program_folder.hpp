// Where the running program's file is.
#pragma once

#include <filesystem>
#include <system_error>

namespace ddprun {

/// Its folder, links followed; empty where /proc is missing.
inline std::filesystem::path program_folder() {
  std::error_code failed;
  return std::filesystem::read_symlink("/proc/self/exe", failed).parent_path();
}

}  // namespace ddprun
