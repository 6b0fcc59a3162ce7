// The command line of ddpctl.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun::ctl {

inline constexpr int kExitRefused = 1;  ///< no such job, or it cannot do what it is asked for

enum class Command { list, status, top, events, logs, stacks, save, restart, stop, signal, wait };

struct CtlOptions {
  Command command = Command::list;
  std::string job;          ///< a run id or its beginning; empty: the only job
  std::optional<int> rank;  ///< logs, stacks, signal; none: all workers
  int signal = 0;
  std::chrono::nanoseconds timeout = std::chrono::minutes(10);  ///< save
  std::chrono::nanoseconds interval = std::chrono::seconds(1);  ///< top: between two questions
  bool json = false;
  bool follow = false;
  bool now = false;
};

/// Nothing is to be asked: print `text` (to stdout if the code is 0) and leave.
struct CtlExit {
  int code = 0;
  std::string text;
};

/// `arguments` are those behind our own name.
std::variant<CtlOptions, CtlExit> parse_ctl_options(const std::vector<std::string>& arguments);

}  // namespace ddprun::ctl
