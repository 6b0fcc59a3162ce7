#include "launcher/program/doctor_command.hpp"

#include <filesystem>

namespace ddprun::launcher {
namespace {

bool has_doctor(const FileProbe& files, const std::string& packages) {
  return files.look(packages + "/ddprun/doctor.py").kind == FileInfo::Kind::regular;
}

}  // namespace

std::string doctor_command(const FileProbe& files, const std::string& executable_folder,
                           const std::string& own_python) {
  const std::string module = " -m ddprun.doctor";
  if (executable_folder.empty()) return "";
  const std::string prefix = std::filesystem::path(executable_folder).parent_path().string();
  // Fedora's and RHEL's own Python has lib64; Debian's has dist-packages.
  for (const std::string lib : {"/lib", "/lib64"}) {
    for (const std::string& name : files.names_in(prefix + lib)) {
      if (!name.starts_with("python3")) continue;
      for (const std::string packages : {"/site-packages", "/dist-packages"}) {
        if (has_doctor(files, prefix + lib + "/" + name + packages))
          return (own_python.empty() ? name : own_python) + module;
      }
    }
  }
  // pip install --target
  return has_doctor(files, prefix) ? "PYTHONPATH=" + prefix + " python3" + module : "";
}

}  // namespace ddprun::launcher
