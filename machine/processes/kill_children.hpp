// The end of everything below us: kill, reap, until no process is left.
#pragma once

#include <chrono>
#include <csignal>
#include <vector>

#include "machine/processes/process_tree.hpp"

namespace ddprun::machine {

/// True when this process has any child, dead or alive.
bool has_children();

using SendSignal = int (*)(pid_t pid, int signal);

/// SIGKILLs all children of this process and reaps them, and then their children, which become ours
/// because we are a subreaper, until none is left or `deadline` has passed. Where a child does
/// not die, those below it are killed too. Returns those that are
/// left, one entry without a pid where /proc shows none. Blocks; SIGCHLD must be blocked in
/// the calling thread. For the ends of rounds and of the job only.
std::vector<ProcessEntry> kill_all_children(std::chrono::steady_clock::time_point deadline,
                                            SendSignal send = ::kill);

}  // namespace ddprun::machine
