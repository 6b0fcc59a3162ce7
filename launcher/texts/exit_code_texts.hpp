// The exit codes of ddprun with what each means, for help, man page and docs/exit-codes.md. Pure.
#pragma once

#include <array>
#include <string_view>

#include "base/exit_codes.hpp"

namespace ddprun::launcher {

struct ExitCodeText {
  int code;
  std::string_view meaning;  ///< one sentence, no full stop
};

/// ddprun's own, in ascending order; a failed job ends with another one.
inline constexpr std::array kExitCodeTexts = {
    ExitCodeText{kExitSuccess,
                 "All workers ended with 0, or there was nothing to start (--help, --dry-run)"},
    ExitCodeText{kExitOutput, "A text (--help, --dry-run) could not be written to stdout"},
    ExitCodeText{
        kExitUsage,
        "The command line is wrong, or a file that it names can't be made; nothing was started"},
    ExitCodeText{
        kExitNoRound,
        "The job could not start or go on: too few nodes joined, too few GPUs are free, a port "
        "is in use, a limit of files or threads is too low"},
    ExitCodeText{kExitInternal,
                 "Internal failure: the agent was killed or stuck, or ddprun got no memory"},
    ExitCodeText{kExitLeftovers, "Processes of the job could not be killed"},
    ExitCodeText{kExitUnsound, "This node failed its check (--preflight) and took no part"},
    ExitCodeText{kExitNotExecutable, "PROGRAM was found, but cannot be executed"},
    ExitCodeText{kExitNotFound, "PROGRAM, or the Python that it needs, was not found"},
};

}  // namespace ddprun::launcher
