// Runs real programs in tests, with a deadline on every wait.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::test {

/// How a program ended and what it printed.
struct ChildResult {
  int status = -1;  ///< exit code, or 128 + signal
  std::string out;
  std::string err;
  bool timed_out = false;
};

struct ChildOptions {
  std::vector<std::pair<std::string, std::string>>
      environment;                          ///< added to ours; an empty value removes the name
  std::string directory;                    ///< to run in; empty: ours
  std::string input;                        ///< its stdin
  bool leave_stdin = false;                 ///< true: it has no stdin pipe but /dev/null
  std::chrono::milliseconds limit{60'000};  ///< then it is killed
};

/// A running program; collects its output.
class Child {
 public:
  Child(const std::vector<std::string>& command, const ChildOptions& options = {});
  ~Child();  // kills it if it still runs
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Reads on until `done` holds for what was printed so far; false: the program ended or the limit
  /// passed first.
  bool wait_for(const std::function<bool(const std::string& out, const std::string& err)>& done);
  bool wait_for_output(const std::string& text) {
    return wait_for([&](const std::string& out, const std::string&) {
      return out.find(text) != std::string::npos;
    });
  }
  void signal(int number) const;
  ChildResult wait();
  [[nodiscard]] const std::string& out() const { return result_.out; }
  [[nodiscard]] const std::string& err() const { return result_.err; }

 private:
  bool read_some(std::chrono::milliseconds limit);

  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  bool reaped_ = false;
  std::chrono::steady_clock::time_point deadline_;
  ChildResult result_;
};

ChildResult run(const std::vector<std::string>& command, const ChildOptions& options = {});

/// Path of a program of ours in the build's bin/ (ddprun, train), and of a helper of the tests.
std::string program(const std::string& name);
std::string helper(const std::string& name);

/// Live processes (zombies excluded) with the entry `NAME=VALUE` in their environment: so tests
/// find processes that are left, wherever they have moved to.
std::vector<pid_t> processes_with(const std::string& entry);
/// Live processes, of any user that lets us look, with this text in /proc/PID/`file`: "cmdline" or
/// "environ".
std::vector<pid_t> processes_showing(const std::string& file, const std::string& text);

/// The parent of a process; -1 when there is no such process.
pid_t parent_of(pid_t pid);

/// Polls until `condition` holds; false after the limit.
bool eventually(const std::function<bool()>& condition,
                std::chrono::milliseconds limit = std::chrono::seconds(10));

/// For programs that end together with their pid namespace: there the leak checker of
/// AddressSanitizer, which forks at the end, fails.
std::pair<std::string, std::string> no_leak_check();

/// A value that no other test uses.
std::string unique_mark();

}  // namespace ddprun::test
