// The argument of torch.distributed.launch: scripts of that time want their local rank on the
// command line. Pure; the script is read through a probe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "launcher/options/options.hpp"
#include "launcher/program/program.hpp"

namespace ddprun::launcher {

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
