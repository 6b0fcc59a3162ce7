// The thread that may wait for a terminal, a file or a reader of ours. What it can't take in time
// is dropped and counted, so that a stopped reader never stops a worker.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "agent/streams/log_buffer.hpp"
#include "agent/streams/log_output.hpp"
#include "agent/streams/log_settings.hpp"

namespace ddprun::agent {

inline constexpr std::size_t kLogQueueBytesMax = std::size_t{8} << 20;

struct LogWriterSettings {
  /// What the outputs are: a console tells its reader where bytes are missing; a file has no such
  /// lines.
  enum class Kind { console, files } kind = Kind::console;
  LogPolicy policy = LogPolicy::drop;
  std::size_t queue_bytes_max = kLogQueueBytesMax;
  /// Policy `drop`. A console must make room for what comes within this time. Of a disk it is
  /// enough that it takes anything within this time: then it is waited on.
  std::chrono::milliseconds patience{100};
};

class LogWriter {
 public:
  explicit LogWriter(LogWriterSettings settings) : state_(std::make_shared<State>(settings)) {}
  /// Does not wait for a write that blocks: see `finish`.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  /// Queues bytes; may wait for room, as the policy says, but not beyond `give_up`. Where nothing
  /// waits and the output takes bytes at once, it gets them here: they are still in the cache, and
  /// no other thread is woken. Called by one thread.
  void write(std::shared_ptr<LogOutput> output, LogBuffer bytes);

  /// An empty buffer, one that was written where there is one.
  LogBuffer buffer();

  /// Waits until everything queued is written, or the deadline has passed; true: all is written.
  bool finish(std::chrono::steady_clock::time_point deadline);

  /// What is not written by now, and what still comes, counts as dropped. Nothing goes out
  /// afterwards, but for what a disk that hangs may take of one last write.
  void give_up();

  [[nodiscard]] std::uint64_t dropped_bytes() const;

 private:
  struct Entry {
    std::shared_ptr<LogOutput> output;
    LogBuffer bytes;
    std::size_t done = 0;  // so many of them are out
  };
  // Shared with the thread, which outlives us when it is stuck in a write at the end.
  struct State {
    explicit State(LogWriterSettings s) : settings(s) {}

    const LogWriterSettings settings;
    mutable std::mutex mutex;
    std::condition_variable wake;   // the thread has work
    std::condition_variable taken;  // the queue got shorter
    std::deque<Entry> queue;
    std::size_t queued_bytes = 0;  // with those of the entry at work
    std::uint64_t taken_bytes = 0;
    bool stop = false;
    bool going_out = false;  // bytes are on their way and not yet accounted for
    bool given_up = false;   // nothing more goes out
    bool settled = false;    // all that did not is counted
    int waiting = 0;         // who waits for `taken`
    bool at_work = false;
    bool dropping = false;  // until half of the queue is free
    std::uint64_t dropped = 0;
    std::uint64_t dropped_said = 0;
    std::vector<LogBuffer> spare;

    bool fits(std::size_t bytes) const {
      return queued_bytes == 0 || queued_bytes + bytes <= settings.queue_bytes_max;
    }
  };
  static void run(const std::shared_ptr<State>& state);
  static void put_out(State& state, Entry& entry);
  static bool put_out_now(State& state, std::unique_lock<std::mutex>& lock, Entry& entry);
  static void keep_spare(State& state, LogBuffer bytes);
  static bool make_room(State& state, std::unique_lock<std::mutex>& lock, std::size_t bytes);

  std::shared_ptr<State> state_;
  std::thread thread_;  // started by the first write: many jobs print nothing
};

}  // namespace ddprun::agent
