// A program that looks at a worker for us (gdb, py-spy), or a command of the user beside the
// workers
// (--preflight): started like a worker, killed at its deadline, its output gathered.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/exit_status.hpp"
#include "machine/programs/child_program.hpp"

namespace ddprun::machine {

/// More output than this is read and thrown away.
inline constexpr std::size_t kHelperOutputMax = 64 * 1024;

struct HelperRequest {
  std::vector<std::string> argv;  ///< the first one is a path
  std::chrono::nanoseconds limit{0};
  std::string input = {};                     ///< its stdin
  std::vector<std::string> environment = {};  ///< `NAME=VALUE`, beside our own
};

struct HelperResult {
  std::string output;              ///< stdout and stderr
  bool in_time = false;            ///< it ended by itself
  std::optional<ExitStatus> exit;  ///< where it did, if that is known
  std::string problem;             ///< not empty: it could not be started
};

/// Its last line that is not empty.
std::string last_line_of(const HelperResult& result);

class HelperProgram {
 public:
  using Done = std::function<void(HelperResult)>;
  using Read = std::function<void(std::string_view)>;

  HelperProgram(boost::asio::io_context& context, const UserState& user);

  /// At most one at a time. `done` is called once, from the context, after its end or at the
  /// deadline, when it is killed; what it has left in its session is killed, too. `read`: called
  /// with its output as it comes, all of it.
  void start(HelperRequest request, Done done, Read read = nullptr);

  /// Kills what runs; `done` is not called.
  void stop();

  /// A child has ended: true where it was this one, and then its exit has been taken. Called
  /// by the code that reaps children.
  bool child_ended(pid_t pid) { return pid == program_.pid() && program_.look_for_exit(); }
  /// A child has ended whose exit has been taken already, and is not known.
  void child_reaped(pid_t pid);
  /// That of its session, too; 0: nothing runs.
  [[nodiscard]] pid_t pid() const { return program_.pid(); }

 private:
  void take(std::string_view bytes);
  void finish();
  void finish_later();

  boost::asio::io_context& context_;
  ChildProgram program_;
  boost::asio::steady_timer deadline_;
  std::uint64_t number_ = 0;  // of the start; handlers of an older one do nothing
  HelperResult result_;
  Done done_;
  Read read_;
};

}  // namespace ddprun::machine
