// One ssh: its process and its three pipes, on the loop's thread. It decides nothing.
#pragma once

#include <sys/types.h>

#include <functional>
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

namespace ddprun::launcher {

class HostProcess {
 public:
  struct Events {
    std::function<void(std::string_view bytes)> output;
    std::function<void(std::string_view bytes)> errors;
    /// It has ended, and all that it printed has come.
    std::function<void(const ExitStatus& exit)> ended;
    /// No more is read while it says so; `go_on` then.
    std::function<bool()> is_full;
  };

  HostProcess(boost::asio::io_context& context, Events events);
  /// Kills it.
  ~HostProcess();
  HostProcess(const HostProcess&) = delete;
  HostProcess& operator=(const HostProcess&) = delete;

  /// `file` is a path. It dies with this process. Errors: those of spawn and of pipes.
  [[nodiscard]] ErrorCode start(const std::string& file, const std::vector<std::string>& argv,
                                const std::vector<std::string>& environment,
                                const machine::UserState& user);
  /// To its stdin; lost where that is closed.
  void send(std::string bytes);
  /// The end of its stdin, behind all that was sent.
  void close_input();
  void kill();
  /// SIGCHLD came.
  void look_for_exit();
  /// There is room for what it prints.
  void go_on();

 private:
  using Stream = boost::asio::posix::stream_descriptor;

  void read_when_ready(Stream& stream, const std::function<void(std::string_view)>& take);
  void write_when_ready();
  void end_if_over();

  boost::asio::io_context& context_;
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
  pid_t pid_ = -1;
  std::optional<ExitStatus> exit_;
  bool told_ = false;
};

}  // namespace ddprun::launcher
