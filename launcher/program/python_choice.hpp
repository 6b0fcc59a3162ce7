// Programs on PATH, and which Python runs scripts. Pure; the file system is asked through a probe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "launcher/options/environment.hpp"
#include "launcher/options/launch_error.hpp"
#include "launcher/program/program.hpp"

namespace ddprun::launcher {

struct PythonChoice {
  std::string file;
  std::string origin;  ///< for people, the end of a sentence; empty: the first one on PATH
};

/// PYTHON_EXEC, else the Python of the environment that ddprun lies in, else python3 or python on
/// PATH. `program`: that needs it, for the error.
LaunchResult<PythonChoice> choose_python(const std::string& program,
                                         const std::string& executable_folder,
                                         const Environment& environment, const FileProbe& files);

/// The active environment (venv, conda) that has a Python, but not this one; else empty.
std::string other_environment(const std::string& python, const Environment& environment,
                              const FileProbe& files);

/// Whether this user may execute the file.
bool is_program(const FileInfo& info);

/// FOLDER/NAME; in an empty folder the name alone.
std::string path_of(const std::string& folder, std::string_view name);

/// The first program of this name on PATH, as execvp reads it: an empty entry is the current
/// folder.
std::optional<std::string> program_on_path(std::string_view name, const Environment& environment,
                                           const FileProbe& files);

}  // namespace ddprun::launcher
