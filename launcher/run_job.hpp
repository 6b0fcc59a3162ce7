// A job of which this ddprun runs a node: plan -> warden and agent -> report.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launcher/options/options.hpp"
#include "launcher/ssh/node_messages.hpp"
#include "machine/processes/spawn.hpp"

namespace ddprun::launcher {

/// How this process was started.
struct Invocation {
  std::vector<std::string> command;  ///< with our own name
  std::span<char> title_room;        ///< of warden::title_room
  const machine::UserState& user;
};

/// Prints why nothing is started; the exit code.
int fail(const LaunchError& error);

/// Prints a line of ours, if the level has warnings.
void warn(LogLevel level, const std::string& problem);

/// Empty: it was deleted.
std::string current_folder();

/// What is typed; `words` begin with the name by which ddprun was started.
LaunchResult<LaunchOptions> options_in(const std::vector<std::string>& words,
                                       const Environment& environment);

/// A report of an earlier job must not outlive this one. A wrong path is an error here: at the end,
/// the report of a long job would be lost.
LaunchResult<void> empty_report(const std::string& path);

/// Plans the job of this node and runs it; the exit code. `node`: of a launcher that started us
/// through ssh; null: this ddprun is its own launcher.
int plan_and_run(const LaunchOptions& options, const Environment& environment,
                 const Invocation& invocation, const NodePlan* node = nullptr);

/// One node of a job that a launcher on another host has started.
int run_as_node(const std::string& socket, std::span<char> title_room,
                const machine::UserState& user);

}  // namespace ddprun::launcher
