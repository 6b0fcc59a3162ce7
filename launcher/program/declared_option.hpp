// What a Python source declares for its own command line. Pure; the source is read through a probe.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "launcher/program/program.hpp"

namespace ddprun::launcher {

/// The text of a Python script, or of a module that lies under the current folder; the last
/// `own_arguments` of argv are PROGRAM's own. Empty: another program, or it cannot be read.
std::string source_of(const ProgramChoice& program, std::size_t own_arguments,
                      const FileProbe& files);

/// The first of `spellings` (`--local_rank`) that a Python source declares for its own command line
/// (argparse's add_argument, click's option); none: it declares none of them. Words in comments and
/// other strings don't count.
std::optional<std::string> declared_option(std::string_view source,
                                           std::span<const std::string_view> spellings);

}  // namespace ddprun::launcher
