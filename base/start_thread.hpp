// Starting a thread where the system may refuse it.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "base/result.hpp"

namespace ddprun {

/// A thread with this name (15 characters) that gets none of the process's signals: these belong to
/// the threads that handle them. Errors: the system's, where a limit of processes or memory forbids
/// it.
Result<std::thread> start_thread(const char* name, std::function<void()> body);

/// Why it was refused, and what to do: for a line to the user.
std::string why_no_thread(const ErrorCode& error);

}  // namespace ddprun
