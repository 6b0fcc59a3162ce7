// The error file of ddprun itself: where a launcher above us, or a scheduler, set
// TORCHELASTIC_ERROR_FILE, it gets what the culprit left, as torchrun does.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "agent/agent.hpp"

namespace ddprun::launcher {

/// What to write there: the culprit's error file with its exit code in `message.errorCode`; where
/// no worker is to blame (a signal, no port), the reason in the same form. None: the job succeeded,
/// or the culprit left no error file. Pure.
std::optional<std::string> error_file_copy(const agent::AgentResult& result,
                                           std::chrono::system_clock::time_point now);

/// Replaces the file. Empty, or the line for the user about what failed.
std::string write_error_file_copy(const std::string& path, const std::string& json);

}  // namespace ddprun::launcher
