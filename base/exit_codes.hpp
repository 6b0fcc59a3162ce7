// The exit codes of ddprun, as docs/exit-codes.md lists them.
#pragma once

namespace ddprun {

inline constexpr int kExitSuccess = 0;
inline constexpr int kExitUsage = 2;   ///< the command line is wrong; nothing was started
inline constexpr int kExitOutput = 1;  ///< what --help and the like print could not be written
/// No round could form: a port is taken, no other node joined in time.
inline constexpr int kExitNoRound = 69;
/// The launcher itself failed: its agent was killed or is stuck.
inline constexpr int kExitInternal = 70;
inline constexpr int kExitLeftovers = 71;       ///< processes of the job could not be killed
inline constexpr int kExitUnsound = 72;         ///< this node failed its check (--preflight)
inline constexpr int kExitNotExecutable = 126;  ///< PROGRAM is there, but can't be executed
inline constexpr int kExitNotFound = 127;       ///< PROGRAM, or the Python it needs, was not found
/// `kExitSignalBase + n`: a worker died of signal n, or ddprun was stopped by it.
inline constexpr int kExitSignalBase = 128;

}  // namespace ddprun
