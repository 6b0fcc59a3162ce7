// What a process's threads do, as far as /proc says: what remains where no debugger is there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::agent {

inline constexpr std::size_t kThreadsShownMax = 256;

/// A line for each thread: `thread 4711 (train): S (sleeping), waits in futex_wait_queue, system
/// call 202`. Empty: the process is gone. `proc` is /proc but in tests.
std::vector<std::string> thread_states(int pid, const std::string& proc = "/proc");

/// A thread waits in read or select for descriptor 0. False also where /proc does not tell.
bool waits_for_stdin(int pid, const std::string& proc = "/proc");

/// The process that traces this one, as a debugger does; 0: none does.
int tracer_of(int pid, const std::string& proc = "/proc");

/// Set while the main thread waits in the kernel so that no signal wakes it (state D): a number
/// that stays the same as long as that wait does.
std::optional<std::uint64_t> kernel_wait_of(int pid, const std::string& proc = "/proc");

}  // namespace ddprun::agent
