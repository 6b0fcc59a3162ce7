#include "agent/progress/stack_taker.hpp"

#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "agent/progress/thread_states.hpp"

namespace ddprun::agent {
namespace {

std::string executable_of(int pid) {
  std::array<char, 4096> path;
  const ssize_t length =
      readlink(fmt::format("/proc/{}/exe", pid).c_str(), path.data(), path.size());
  return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : std::string();
}

}  // namespace

void StackTaker::take(int pid, Done done, std::chrono::nanoseconds limit) {
  stop();
  pid_ = pid;
  done_ = std::move(done);
  notes_.clear();
  states_ = thread_states(pid);
  deadline_ = std::chrono::steady_clock::now() + limit;
  const char* path = std::getenv("PATH");
  const std::string_view folders = path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
  const std::string executable = executable_of(pid);
  const StackPrograms programs{find_program("py-spy", folders), find_program("gdb", folders)};
  methods_ = stack_methods(executable, pid, programs);
  const bool python = executable.find("python") != std::string::npos;
  if (python && programs.py_spy.empty())
    notes_.emplace_back("(install py-spy to see Python's functions)");
  try_next();
}

void StackTaker::stop() {
  helper_.stop();
  if (done_) resume_worker();
  done_ = nullptr;
}

void StackTaker::worker_ended(pid_t pid) {
  if (pid != pid_) return;
  pid_ = 0;
  methods_.clear();
}

/// A debugger that is killed may leave it stopped.
void StackTaker::resume_worker() const {
  if (pid_ > 0) kill(-pid_, SIGCONT);
}

void StackTaker::try_next() {
  const auto left = deadline_ - std::chrono::steady_clock::now();
  if (methods_.empty() || left <= std::chrono::seconds(0)) {
    std::vector<std::string> lines{"from /proc (no debugger could read the stacks):"};
    lines.insert(lines.end(), notes_.begin(), notes_.end());
    lines.insert(lines.end(), states_.begin(), states_.end());
    return std::exchange(done_, nullptr)(std::move(lines));
  }
  const StackMethod method = std::move(methods_.front());
  methods_.erase(methods_.begin());
  helper_.start({.argv = method.argv, .limit = left},
                [this, method](const machine::HelperResult& result) { tried(method, result); });
}

void StackTaker::tried(const StackMethod& method, const machine::HelperResult& result) {
  std::vector<std::string> lines = stack_lines(result.output);
  if (has_frames(lines)) {
    if (method.shows_interpreter) lines = without_interpreter(lines);
    lines.insert(lines.begin(), fmt::format("by {}:", method.name));
    lines.insert(lines.begin() + 1, notes_.begin(), notes_.end());
    if (!result.in_time)
      lines.push_back(
          fmt::format("({} did not finish within {} s)", method.name, kStacksLimit.count()));
    if (!result.in_time) resume_worker();
    return std::exchange(done_, nullptr)(std::move(lines));
  }
  std::string why = result.problem;
  if (why.empty() && !result.in_time) {
    why = fmt::format("not within {} s", kStacksLimit.count());
    resume_worker();
  }
  if (why.empty()) why = lines.empty() ? "no output" : lines.back();
  notes_.push_back(fmt::format("({}: {})", method.name, why));
  try_next();
}

}  // namespace ddprun::agent
