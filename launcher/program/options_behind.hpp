// What stands behind PROGRAM: options of ddprun that were typed there, and the argument of
// torch.distributed.launch, which scripts of that time want. Pure; the script is read through a
// probe.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "launcher/options/options.hpp"
#include "launcher/program/program.hpp"

namespace ddprun::launcher {

/// A warning about options that launchers have, and scripts hardly ever, behind a Python script or
/// module that does not declare them itself; empty: nothing stands there. The last `own_arguments`
/// of argv are PROGRAM's own.
std::string launcher_options_behind(const ProgramChoice& program, std::size_t own_arguments,
                                    const FileProbe& files);

/// The text of a Python script, or of a module that lies under the current folder; the last
/// `own_arguments` of argv are PROGRAM's own. Empty: another program, or it cannot be read.
std::string source_of(const ProgramChoice& program, std::size_t own_arguments,
                      const FileProbe& files);

/// The first of `spellings` (`--local_rank`) that a Python source declares for its own command line
/// (argparse's add_argument, click's option); none: it declares none of them. Words in comments and
/// other strings don't count.
std::optional<std::string> declared_option(std::string_view source,
                                           std::span<const std::string_view> spellings);

/// `--local_rank` or `--local-rank`, whichever a Python source declares for its own command line
/// (argparse's add_argument, click's option); none: neither. Words in comments and other strings
/// don't count.
std::optional<std::string> declared_local_rank_option(std::string_view source);

/// Puts `--local_rank=${local_rank}` before PROGRAM's own arguments where `wanted` says so, or
/// where it is automatic and a Python script declares it; not where the user gives it. Returns what
/// to say about it; empty: nothing.
std::string add_local_rank_argument(ProgramChoice& program, std::size_t own_arguments,
                                    LocalRankArgument wanted, const FileProbe& files);

}  // namespace ddprun::launcher
