// The stacks of a worker that hangs: by py-spy or gdb where they are, else by what /proc knows.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "agent/progress/stack_methods.hpp"
#include "machine/programs/helper_program.hpp"

namespace ddprun::agent {

/// For all programs together.
inline constexpr std::chrono::seconds kStacksLimit{10};

class StackTaker {
 public:
  /// Lines; the first one says by what they were taken.
  using Done = std::function<void(std::vector<std::string>)>;

  StackTaker(boost::asio::io_context& context, const machine::UserState& user)
      : helper_(context, user) {}

  /// `done` is called once, from the context or at once, at the latest when `limit` is over. The
  /// worker is stopped meanwhile; afterwards it runs on.
  void take(int pid, Done done, std::chrono::nanoseconds limit = kStacksLimit);

  /// `done` is not called any more; no program is left.
  void stop();

  /// The worker has been reaped: its pid may be another process's from now on, which no program
  /// looks at.
  void worker_ended(pid_t pid);

  /// As HelperProgram's.
  bool child_ended(pid_t pid) { return helper_.child_ended(pid); }

 private:
  void try_next();
  void tried(const StackMethod& method, const machine::HelperResult& result);

  void resume_worker() const;

  machine::HelperProgram helper_;
  int pid_ = 0;                       // 0: it has ended
  std::vector<StackMethod> methods_;  // still to be tried
  std::vector<std::string> notes_;    // why others gave nothing
  std::vector<std::string> states_;   // of its threads, before a debugger held them
  std::chrono::steady_clock::time_point deadline_;
  Done done_;
};

}  // namespace ddprun::agent
