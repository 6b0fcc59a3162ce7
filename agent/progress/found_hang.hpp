// A worker that hangs, as the watches report it.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/membership_messages.hpp"

namespace ddprun::agent {

/// What is reported of a worker that a signal holds.
inline constexpr std::string_view kSuspended = "suspended by a signal (SIGSTOP)";

/// A worker that hangs, with all that could be seen of it.
struct FoundHang {
  int local_rank = 0;
  std::string message;                            ///< how that shows
  std::optional<proto::WorkerProgress> progress;  ///< where it told
  std::chrono::steady_clock::time_point since;    ///< its last sign of life
  std::vector<std::string> stacks;
  bool all_silent = false;  ///< no worker printed anything, and this is only the first of them
};

}  // namespace ddprun::agent
