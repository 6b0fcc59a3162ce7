// The process that imports a job's Python modules once, and of which the workers are forked
// (decision 0023). It belongs to the agent's control thread, decides nothing about rounds, and
// where it cannot serve, the workers are started as without it.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/result.hpp"
#include "base/unique_handle.hpp"
#include "machine/processes/spawn.hpp"

namespace ddprun::agent {

/// A worker that was asked for.
struct ForkedWorker {
  machine::SpawnedProcess process;  ///< a child of ours; without a pid where there is a problem
  std::string problem;              ///< why it was not forked; empty: it runs
};

class Importer {
 public:
  /// For all workers of a round, from the request to the last answer.
  static constexpr std::chrono::seconds kForkLimit{10};
  static constexpr std::chrono::seconds kImportLimit{600};
  /// So many modules are left out, one after the other, and then all.
  static constexpr int kLeftOutMax = 8;
  /// When the user is told that the modules are being imported.
  static constexpr std::chrono::seconds kSlowAfter{10};

  struct Program {
    std::string file;                      ///< the interpreter
    std::vector<std::string> argv;         ///< of a worker
    std::vector<std::string> environment;  ///< what workers have in common, NAME=VALUE
    std::vector<std::string> modules;      ///< `auto`: those that the program imports at its top
    std::string folder;                    ///< a new one, for the file that Python is to find
  };

  struct Events {
    /// A line for the user: that it takes long, or why no worker is forked from now on.
    std::function<void(const std::string& line)> notice;
    /// It can fork workers, or has given up. Once for each start.
    std::function<void()> settled;
  };

  /// `user` is borrowed.
  Importer(boost::asio::io_context& context, const machine::UserState& user, Events events);
  Importer(const Importer&) = delete;
  Importer& operator=(const Importer&) = delete;

  /// Called once.
  void start(Program program);
  [[nodiscard]] bool is_settled() const { return state_ == State::ready || state_ == State::gone; }
  [[nodiscard]] bool can_fork() const { return state_ == State::ready; }

  /// Forks a worker for each request, while it `can_fork`. The descriptors of the requests are
  /// borrowed until this returns; the files and arguments must be those of the program. `forked` is
  /// called once, before this returns or later, with the workers in the order of the requests.
  void fork(const std::vector<machine::SpawnRequest>& requests,
            std::function<void(std::vector<ForkedWorker>)> forked);

  /// The job ends: what has not been forked by now is answered, and no worker is forked any more.
  void abandon_forks();

  /// Takes the end of the importing process: true where `pid` is it.
  bool child_ended(pid_t pid);
  /// The process that no end of a round may end; -1: there is none.
  [[nodiscard]] pid_t pid() const { return process_.pid; }
  /// Sends it SIGKILL. It is a child as any other from then on, and no worker is forked any more.
  void stop();

 private:
  using Stream = boost::asio::posix::stream_descriptor;
  // What it is doing; `checking`: whether this Python runs our file at all.
  enum class State { idle, checking, importing, ready, forking, gone };
  struct Birth {
    Stream answer;
    ForkedWorker worker;
    [[nodiscard]] bool is_awaited() const {
      return worker.process.pid <= 0 && worker.problem.empty();
    }
  };

  ErrorCode spawn(const std::vector<std::string>& argv);
  void ask_for_modules();
  void limit_imports(std::chrono::seconds next);
  void await_answer();
  void on_answer();
  [[nodiscard]] ErrorCode request(const machine::SpawnRequest& worker);
  void on_birth(Birth& birth);
  void end_births_if_all();
  void give_up(const std::string& why);
  void give_up_births(const std::string& why);
  void forget_process();
  [[nodiscard]] std::string ended_line(const std::string& how) const;
  [[nodiscard]] std::string last_line() const;

  boost::asio::io_context& context_;
  const machine::UserState& user_;
  const Events events_;
  Program program_;
  State state_ = State::idle;
  int left_out_ = 0;
  machine::SpawnedProcess process_;
  Stream control_;
  std::array<UniqueFd, 2> printed_;             // what it has written to stdout and stderr
  std::vector<std::shared_ptr<Birth>> births_;  // of the workers that were asked for
  std::function<void(std::vector<ForkedWorker>)> forked_;
  boost::asio::steady_timer timer_;
};

}  // namespace ddprun::agent
