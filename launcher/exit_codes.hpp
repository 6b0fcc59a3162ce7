// The exit codes of ddprun, as docs/exit-codes.md lists them. (126 and 127 stand in
// launch_error.hpp.)
#pragma once

namespace ddprun::launcher {

inline constexpr int kExitSuccess = 0;
inline constexpr int kExitOutput = 1;  ///< what --help and the like print could not be written
inline constexpr int kExitNoRound =
    69;  ///< no round could form: a port is taken, no other node joined in time
inline constexpr int kExitInternal =
    70;  ///< ddprun itself failed: its agent was killed or is stuck
inline constexpr int kExitLeftovers = 71;  ///< processes of the job could not be killed
inline constexpr int kExitSignalBase =
    128;  ///< + n: a worker died of signal n, or ddprun was stopped by it

}  // namespace ddprun::launcher
