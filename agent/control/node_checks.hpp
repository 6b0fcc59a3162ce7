// What has to pass before this node takes part in the job: a command of the user's, and a wait for
// GPUs.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "agent/config.hpp"
#include "agent/node/node_events.hpp"
#include "machine/programs/helper_program.hpp"

namespace ddprun::agent {

/// A longer line of the command is cut.
inline constexpr std::size_t kPreflightLineMax = 4096;

/// Takes output to pieces: whole lines, and what is behind the last one.
class PreflightLines {
 public:
  /// The lines that end with these bytes.
  std::vector<std::string> add(std::string_view bytes);
  /// The unfinished line; empty: there is none.
  std::string rest();

 private:
  std::string line_;
};

/// The check of this node (--preflight): a command that runs before the node takes part in the job.
class Preflight {
 public:
  struct Events {
    std::function<void(const std::string& line)> say;  ///< `[preflight] ` and a line of its output
    std::function<void(CheckEnded)> ended;  ///< once for each start, unless it is stopped
  };

  /// The user's state and the settings are borrowed.
  Preflight(boost::asio::io_context& context, const machine::UserState& user,
            const PreflightSettings& settings, Events events)
      : settings_(settings), events_(std::move(events)), program_(context, user) {}

  /// By `sh -c`. At most one at a time.
  void start();
  /// Kills it, with all of its session.
  void stop() { program_.stop(); }
  /// As HelperProgram's.
  bool child_ended(pid_t pid) { return program_.child_ended(pid); }

 private:
  void show(const std::string& line);
  void end(const machine::HelperResult& result);

  const PreflightSettings& settings_;
  const Events events_;
  machine::HelperProgram program_;
  PreflightLines lines_;
  std::string last_line_;  // that is not empty
  std::chrono::steady_clock::time_point started_at_;
};

/// Why a check failed: `exited with code 3: LAST LINE`. Empty: it passed.
std::string why_unsound(const machine::HelperResult& result, std::chrono::nanoseconds timeout,
                        const std::string& last_line);

/// The first argument of the process that waits for GPUs; the second is their list, `entry=UUID`
/// with commas.
inline constexpr std::string_view kAwaitGpusArgument = "--await-gpus";

/// What the process does that waits for GPUs. Returns its exit code.
int await_gpus(std::string_view list);

/// Before a restart a node waits until nothing uses the GPUs that it has claimed (--gpus=free): the
/// driver frees the memory of a killed worker a moment after its end. The driver is asked by a
/// process of its own, ddprun again, because a call of it may take seconds or never return.
class GpuWait {
 public:
  static constexpr std::chrono::seconds kLimit{30};

  struct Events {
    std::function<void(const std::string& line)> say;
    std::function<void()> ended;  ///< once for each start
  };

  /// `gpus`: CheckSettings::claimed_gpus. The user's state is borrowed.
  GpuWait(boost::asio::io_context& context, const machine::UserState& user,
          const std::vector<std::string>& gpus, Events events);

  /// At most one at a time.
  void start();
  /// As HelperProgram's.
  bool child_ended(pid_t pid) { return program_.child_ended(pid); }

 private:
  void end(const machine::HelperResult& result);

  const std::string list_;
  const Events events_;
  machine::HelperProgram program_;
  PreflightLines lines_;
};

/// What has to pass before this node takes part, or takes part again.
struct NodeChecks {
  bool child_ended(pid_t pid) {
    return (gpu_wait && gpu_wait->child_ended(pid)) || (preflight && preflight->child_ended(pid));
  }

  std::optional<Preflight> preflight;  ///< none: this node takes part without a check
  std::optional<GpuWait> gpu_wait;     ///< none: no GPUs are claimed
};

}  // namespace ddprun::agent
