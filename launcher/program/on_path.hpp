// Programs on PATH. Pure; the file system is asked through a probe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "launcher/options/environment.hpp"
#include "launcher/program/program.hpp"

namespace ddprun::launcher {

/// Whether this user may execute the file.
bool is_program(const FileInfo& info);

/// FOLDER/NAME; in an empty folder the name alone.
std::string path_of(const std::string& folder, std::string_view name);

/// The first program of this name on PATH, as execvp reads it: an empty entry is the current
/// folder.
std::optional<std::string> program_on_path(std::string_view name, const Environment& environment,
                                           const FileProbe& files);

}  // namespace ddprun::launcher
