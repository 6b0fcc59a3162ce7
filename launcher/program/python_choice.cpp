#include "launcher/program/python_choice.hpp"

#include <filesystem>
#include <optional>
#include <utility>

namespace ddprun::launcher {

namespace {

/// As for torchrun, which is a script of its environment. An environment of venv has a file
/// pyvenv.cfg, one of conda a folder conda-meta, and both have their programs in one folder.
std::optional<PythonChoice> python_of_own_environment(const std::string& executable_folder,
                                                      const FileProbe& files) {
  if (executable_folder.empty()) return std::nullopt;
  const std::string own = std::filesystem::path(executable_folder).parent_path().string();
  if (files.look(path_of(own, "pyvenv.cfg")).kind != FileInfo::Kind::regular &&
      files.look(path_of(own, "conda-meta")).kind != FileInfo::Kind::folder) {
    return std::nullopt;
  }
  for (const std::string_view name : {"python3", "python"}) {
    std::string file = path_of(executable_folder, name);
    if (is_program(files.look(file)))
      return PythonChoice{std::move(file), "; by the Python of ddprun's own environment, " + own};
  }
  return std::nullopt;
}

}  // namespace

LaunchResult<PythonChoice> choose_python(const std::string& program,
                                         const std::string& executable_folder,
                                         const Environment& environment, const FileProbe& files) {
  const std::string wanted = lookup(environment, "PYTHON_EXEC").value_or("");
  if (!wanted.empty()) {
    constexpr const char* kOrigin = "; by the Python of PYTHON_EXEC";
    if (wanted.find('/') != std::string::npos) {
      if (is_program(files.look(wanted))) return PythonChoice{wanted, kOrigin};
    } else if (auto file = program_on_path(wanted, environment, files)) {
      return PythonChoice{std::move(*file), kOrigin};
    }
    return LaunchError(
        kExitNotFound,
        "PYTHON_EXEC=" + wanted + ": no such program; set it to the Python to use, or unset it");
  }
  if (auto own = python_of_own_environment(executable_folder, files)) return std::move(*own);
  for (const std::string_view name : {"python3", "python"}) {
    if (auto file = program_on_path(name, environment, files))
      return PythonChoice{std::move(*file), {}};
  }
  return LaunchError(
      kExitNotFound,
      program +
          " needs Python, and there is neither python3 nor python on PATH: install one, or "
          "set PYTHON_EXEC (a program of another kind: make it executable, or use --no-python)");
}

std::string other_environment(const std::string& python, const Environment& environment,
                              const FileProbe& files) {
  const std::filesystem::path programs_of_python = std::filesystem::path(python).parent_path();
  // A shim (pyenv) starts the environment's Python.
  if (programs_of_python.filename() == "shims") return "";
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string folder = lookup(environment, variable).value_or("");
    if (folder.empty()) continue;
    const std::string programs = path_of(folder, "bin");
    if (files.same_folder(programs_of_python.string(), programs)) return "";
    return is_program(files.look(path_of(programs, "python"))) ? folder : "";
  }
  return "";
}

namespace {

constexpr std::string_view kDefaultPath = "/usr/local/bin:/usr/bin:/bin";

}  // namespace

bool is_program(const FileInfo& info) {
  return info.kind == FileInfo::Kind::regular && info.executable;
}

std::string path_of(const std::string& folder, std::string_view name) {
  if (folder.empty()) return std::string(name);
  return folder + (folder.back() == '/' ? "" : "/") + std::string(name);
}

std::optional<std::string> program_on_path(std::string_view name, const Environment& environment,
                                           const FileProbe& files) {
  const std::string path = lookup(environment, "PATH").value_or(std::string(kDefaultPath));
  std::string_view rest = path;
  while (true) {
    const auto colon = rest.find(':');
    const std::string folder(rest.substr(0, colon));
    std::string file = path_of(folder.empty() ? "." : folder, name);
    if (is_program(files.look(file))) return file;
    if (colon == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(colon + 1);
  }
}

}  // namespace ddprun::launcher
