// How an end is put into words, the same in logs, reports and reasons.
#pragma once

#include <string>

#include "proto/membership_messages.hpp"

namespace ddprun::proto {

/// "SIGKILL", "SIGRTMIN+3", "signal 99".
std::string signal_name(int signal);

/// "exited with code 3", "killed by SIGSEGV (signal 11, core dumped)".
std::string describe(const WorkerExit& exit);

/// The same with the time since the round began, or why it could not be started.
std::string describe(const WorkerFailure& failure);

/// "12 ms", "3.2 s", "2 min 5 s".
std::string describe(std::chrono::nanoseconds duration);

}  // namespace ddprun::proto
