// The thread that may block on a terminal, a file or a reader of ours. What it can't take in time
// is dropped and counted, so that a stopped reader never stops a worker.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "proto/unique_handle.hpp"

namespace ddprun::agent {

inline constexpr std::size_t kLogQueueBytesMax = std::size_t{8} << 20;

/// Where bytes go. What is queued keeps its file open.
struct LogTarget {
  int fd = -1;  ///< -1: nowhere
  std::shared_ptr<const UniqueFd>
      owner;  ///< of a file of ours; empty for our own stdout and stderr

  static LogTarget file(UniqueFd fd) {
    auto owner = std::make_shared<const UniqueFd>(std::move(fd));
    const int number = owner->get();
    return {number, std::move(owner)};
  }
  explicit operator bool() const { return fd >= 0; }
};

class LogWriter {
 public:
  /// What the targets are: a console tells its reader where bytes are missing, and a reader that is
  /// gone is no loss; a file has no such lines, and what a full disk does not take is lost.
  enum class Kind { console, files };

  explicit LogWriter(Kind kind) : state_(std::make_shared<State>(kind)) {}
  /// Does not wait for a blocked write: see `finish`.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  /// Queues bytes. False: the queue is full and they were dropped. Called by one thread.
  bool write(const LogTarget& target, std::string bytes);

  /// Waits until everything queued is written, or the deadline has passed; true: all is written.
  bool finish(std::chrono::steady_clock::time_point deadline);

  [[nodiscard]] std::uint64_t dropped_bytes() const;

 private:
  struct Entry {
    LogTarget target;
    std::string bytes;
  };
  // Shared with the thread, which outlives us when it is stuck in a write at the end.
  struct State {
    explicit State(Kind k) : kind(k) {}

    const Kind kind;
    mutable std::mutex mutex;
    std::condition_variable wake;     // the thread has work
    std::condition_variable written;  // the queue got shorter
    std::deque<Entry> queue;
    std::size_t queued_bytes = 0;
    bool busy = false;
    bool stop = false;
    std::uint64_t dropped = 0;
    std::uint64_t dropped_said = 0;
  };
  static void run(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
  std::thread thread_;  // started by the first write: many jobs print nothing
};

}  // namespace ddprun::agent
