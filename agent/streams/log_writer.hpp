// The only thread that may block on our stdout or stderr. Its queue is bounded: what does not fit
// is dropped, counted and said, so that a stopped reader never stops a worker.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace ddprun::agent {

inline constexpr std::size_t kLogQueueBytesMax = std::size_t{8} << 20;

class LogWriter {
 public:
  LogWriter() : state_(std::make_shared<State>()) {}
  /// Does not wait for a blocked write: see `finish`.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  /// Queues bytes for a descriptor (1 or 2). False: the queue is full and they were dropped. Called
  /// by one thread.
  bool write(int fd, std::string bytes);

  /// Waits until everything queued is written, or the deadline has passed; true: all is written.
  bool finish(std::chrono::steady_clock::time_point deadline);

  [[nodiscard]] std::uint64_t dropped_bytes() const;

 private:
  // Shared with the thread, which outlives us when it is stuck in a write at the end.
  struct State {
    mutable std::mutex mutex;
    std::condition_variable wake;     // the thread has work
    std::condition_variable written;  // the queue got shorter
    std::deque<std::pair<int, std::string>> queue;
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
