// Before a restart a node waits until nothing uses the GPUs that it has claimed (--gpus=free): the
// driver frees the memory of a killed worker a moment after its end. The driver is asked by a
// process of its own, ddprun again, because a call of it may take seconds or never return.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "agent/control/preflight.hpp"
#include "agent/progress/helper_program.hpp"

namespace ddprun::agent {

/// The first argument of that process; the second is the list of GPUs, `entry=UUID` with commas.
inline constexpr std::string_view kAwaitGpusArgument = "--await-gpus";

/// What that process does. Returns its exit code.
int await_gpus(std::string_view list);

class GpuWait {
 public:
  static constexpr std::chrono::seconds kLimit{30};

  struct Events {
    std::function<void(const std::string& line)> say;
    std::function<void()> ended;  ///< once for each start
  };

  /// `gpus`: AgentConfig::claimed_gpus. The user's state is borrowed.
  GpuWait(boost::asio::io_context& context, const machine::UserState& user,
          const std::vector<std::string>& gpus, Events events);

  /// At most one at a time.
  void start();
  /// As HelperProgram's.
  bool child_ended(pid_t pid) { return program_.child_ended(pid); }

 private:
  void end(const HelperResult& result);

  const std::string list_;
  const Events events_;
  HelperProgram program_;
  PreflightLines lines_;
};

}  // namespace ddprun::agent
