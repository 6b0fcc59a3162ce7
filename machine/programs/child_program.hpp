// A child with pipes on the thread of an io_context: an ssh, a debugger, the user's check of a
// node. Why not by Boost.Process: docs/decisions/0006.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/exit_status.hpp"
#include "base/result.hpp"
#include "machine/processes/spawn.hpp"

namespace ddprun::machine {

/// It decides nothing, and runs one program at a time.
class ChildProgram {
 public:
  struct Settings {
    bool has_input = false;  ///< false: its stdin is /dev/null
    /// How long other processes may hold its output after its end. 0: they are killed with its
    /// session, and what has come by then is all.
    std::chrono::nanoseconds output_limit{0};
  };

  struct Events {
    std::function<void(std::string_view bytes)> output;
    std::function<void(std::string_view bytes)> errors;  ///< none: they go to `output`
    /// It has ended, and all that it printed has come.
    std::function<void(const ExitStatus& exit)> ended;
    /// No more is read while it says so; `go_on` then. None: always read.
    std::function<bool()> is_full;
  };

  /// `user` is borrowed.
  ChildProgram(boost::asio::io_context& context, const UserState& user, Settings settings,
               Events events);
  /// Kills it.
  ~ChildProgram();
  ChildProgram(const ChildProgram&) = delete;
  ChildProgram& operator=(const ChildProgram&) = delete;

  /// `file` is a path. The program dies with this process. Errors: those of spawn and of pipes.
  [[nodiscard]] ErrorCode start(const std::string& file, const std::vector<std::string>& argv,
                                const std::vector<std::string>& environment);
  /// To its stdin; lost where that is closed.
  void send(std::string bytes);
  /// The end of its stdin, behind all that was sent.
  void close_input();
  /// There is room for what it prints.
  void go_on();
  void kill();
  /// Kills what runs, with its session, and gives `output` what it printed before. There is no
  /// further event of this program; its exit is then taken as that of any unknown child.
  void stop();
  /// It has ended and is reaped, which somebody else has seen. There is no further event of it.
  void forget();
  /// SIGCHLD came: true where the program has ended, and then its exit has been taken.
  bool look_for_exit();
  [[nodiscard]] pid_t pid() const { return pid_; }  ///< 0: nothing runs

 private:
  using Stream = boost::asio::posix::stream_descriptor;
  using Take = std::function<void(std::string_view)>;

  ErrorCode try_to_start(SpawnRequest request);
  void read_when_ready(Stream& stream, const Take& take);
  /// False: there is nothing now, or the stream has ended and is closed.
  bool read_once(Stream& stream, const Take& take);
  void read_rest();
  void write_when_ready();
  void end_if_over();
  void close_all();
  /// For a handler: whether the start is still the one of now. It may be asked when this is gone.
  [[nodiscard]] auto is_current() const {
    return [now = number_, number = *number_] { return *now == number; };
  }

  boost::asio::io_context& context_;
  const UserState& user_;
  const Settings settings_;
  const Events events_;
  Stream input_;
  Stream output_;
  Stream errors_;
  boost::asio::steady_timer late_;  // a process that holds its pipes, and is not it
  std::string unsent_;
  bool writing_ = false;
  bool closing_input_ = false;
  bool output_waits_ = false;
  bool errors_wait_ = false;
  // The number of the start. It outlives this, for handlers.
  std::shared_ptr<std::uint64_t> number_ = std::make_shared<std::uint64_t>(0);
  pid_t pid_ = 0;  // 0: nothing runs
  std::optional<ExitStatus> exit_;
};

}  // namespace ddprun::machine
