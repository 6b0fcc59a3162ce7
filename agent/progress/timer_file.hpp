// The timer file of a job with TORCHELASTIC_ENABLE_FILE_TIMER: a named pipe into which workers
// write their timers, and the clock for them. Without timers it causes no wake-ups.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "agent/progress/file_timers.hpp"

namespace ddprun::agent {

class TimerFile {
 public:
  using Expired = std::function<void(const ExpiredTimer&)>;

  /// Makes the pipe, in place of one that an earlier job has left; never in place of one that is
  /// read. Where that can't be done there is a warning, and nothing is watched.
  TimerFile(boost::asio::io_context& context, std::string path, Expired expired);

  /// The timers of a round are over: its workers are stopped.
  void clear();
  void worker_ended(int pid);

  /// The workers are stopped by Ctrl-Z, or go on.
  void pause();
  void resume();

  /// At the end of the job.
  void remove();

 private:
  [[nodiscard]] std::string make();
  void wait();
  void read();
  void arm();

  const std::string path_;
  Expired expired_;
  boost::asio::posix::stream_descriptor pipe_;
  boost::asio::steady_timer timer_;
  FileTimers timers_;
  std::optional<FileTimers::Time> paused_at_;
  bool reported_garbage_ = false;
};

}  // namespace ddprun::agent
