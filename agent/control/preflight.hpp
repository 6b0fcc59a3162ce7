// The check of this node (--preflight): a command that runs before the node takes part in the job.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "agent/config.hpp"
#include "agent/control/node_events.hpp"
#include "agent/progress/helper_program.hpp"

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
  void end(const HelperResult& result);

  const PreflightSettings& settings_;
  const Events events_;
  HelperProgram program_;
  PreflightLines lines_;
  std::string last_line_;  // that is not empty
  std::chrono::steady_clock::time_point started_at_;
};

/// Why a check failed: `exited with code 3: LAST LINE`. Empty: it passed.
std::string why_unsound(const HelperResult& result, std::chrono::nanoseconds timeout,
                        const std::string& last_line);

}  // namespace ddprun::agent
