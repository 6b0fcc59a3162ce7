// The thread that may wait for a terminal, a file or a reader of ours. A caller with bytes for it
// never waits: it asks first whether they are wanted, and what can't be taken in time is dropped
// and counted. Only where the system refuses the thread they wait themselves.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "agent/streams/log_buffer.hpp"
#include "agent/streams/log_settings.hpp"
#include "base/byte_output.hpp"

namespace ddprun::agent {

inline constexpr std::size_t kLogQueueBytesMax = std::size_t{8} << 20;
/// More queues' room has what the pipes of dead workers hold, which is read without waiting: 64 MiB
/// are about what the kernel gives the pipes of one user.
inline constexpr std::size_t kQueuesAtMost = 8;
/// Room for lines of ddprun's own in a queue of any length.
inline constexpr std::size_t kOwnBytesMax = 64 * 1024;

struct LogWriterSettings {
  /// What the outputs are: a console tells its reader where bytes are missing; a file has no such
  /// lines.
  enum class Kind { console, files } kind = Kind::console;
  LogPolicy policy = LogPolicy::drop;
  std::size_t queue_bytes_max = kLogQueueBytesMax;
  /// So long a full output is waited for. With `drop` it must make room in this time. Otherwise it
  /// is enough that it takes anything: then the time begins anew.
  std::chrono::milliseconds patience{100};
  /// Why bytes were dropped, for the reader of a console.
  std::string_view reason = "the reader was too slow";
};

/// Where the bytes come from. The workers' are counted when they are lost.
enum class LogOrigin { workers, ours };

/// How badly bytes are wanted, whatever becomes of them here.
enum class LogUrgency {
  usual,
  evidence,  ///< they may show which worker failed: for them there is a second queue's room
  /// Their worker has ended: a console is not waited for, for files in finite time.
  round_over,
};

class LogWriter {
 public:
  using Clock = std::chrono::steady_clock;

  /// `room_made` is called by the thread when half of the queue is free, after a writer was told to
  /// wait; it must do no more than wake that writer, and is not called after `give_up`.
  explicit LogWriter(LogWriterSettings settings, std::function<void()> room_made = {})
      : state_(std::make_shared<State>(settings, std::move(room_made))) {}
  /// Does not wait for a write that blocks: see `finish`.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  /// Whether to come with bytes now. False: they stay where they are, and the worker waits;
  /// ask again when there is room, or at `patience_ends`. How long that may last is the policy's;
  /// after it the answer is true, and what comes is dropped.
  bool accepts(Clock::time_point now, LogUrgency urgency = LogUrgency::usual);

  /// When `accepts` gives another answer even if nothing moves; none: never, or it was true.
  [[nodiscard]] std::optional<Clock::time_point> patience_ends() const;

  /// Queues bytes, and never waits. Where nothing waits and the output takes bytes at once, it gets
  /// them here: they are still in the cache, and no other thread is woken. Called by the thread
  /// that calls `accepts`.
  void write(std::shared_ptr<ByteOutput> output, LogBuffer bytes,
             LogOrigin origin = LogOrigin::workers);

  /// An empty buffer, one that was written where there is one.
  LogBuffer buffer();

  /// Waits until everything queued is written, or the deadline has passed; true: all is written.
  bool finish(std::chrono::steady_clock::time_point deadline);

  /// Whether bytes wait for an output that the policy waits for, and that has taken something
  /// within `patience`.
  [[nodiscard]] bool is_slow(Clock::time_point now) const;

  /// What is not written by now, and what still comes, counts as dropped. Nothing goes out
  /// afterwards, but for what a disk that hangs may take of one last write.
  void give_up();

  /// The errno with which an output refused bytes; 0: none did.
  [[nodiscard]] int refusal() const;
  [[nodiscard]] std::uint64_t dropped_bytes() const;

  /// Whether the reader of the output has closed its end.
  [[nodiscard]] bool unread() const;

  /// Whether everything that came has gone out.
  [[nodiscard]] bool idle() const;

 private:
  struct Entry {
    std::shared_ptr<ByteOutput> output;
    LogBuffer bytes;
    LogOrigin origin = LogOrigin::workers;
    std::size_t done = 0;  // so many of them are out
  };
  struct Queue {
    void push(Entry entry);
    /// So many bytes of an entry at work have gone out, or are lost.
    void take(LogOrigin origin, std::size_t taken);

    std::deque<Entry> entries;
    std::size_t bytes = 0;      // with those of the entry at work
    std::size_t own_bytes = 0;  // the part of it that is ours
    std::uint64_t taken_bytes = 0;
    Clock::time_point moved_at{};  // the output took some of them, or had to from then on
  };
  // Shared with the thread, which outlives us when it is stuck in a write at the end.
  struct State {
    State(LogWriterSettings s, std::function<void()> room)
        : settings(s), room_made(std::move(room)) {}

    const LogWriterSettings settings;
    const std::function<void()> room_made;
    mutable std::mutex mutex;
    std::condition_variable wake;   // the thread has work
    std::condition_variable taken;  // the queue got shorter
    Queue queue;
    bool stop = false;
    bool going_out = false;  // bytes are on their way and not yet accounted for
    bool given_up = false;   // nothing more goes out
    bool settled = false;    // all that did not is counted
    int waiting = 0;         // callers that wait for `taken`
    bool wanted = false;     // a writer was told to wait
    bool at_work = false;
    bool unread = false;    // the reader is gone
    bool dropping = false;  // until half of the queue is free
    std::uint64_t dropped = 0;
    std::uint64_t dropped_reported = 0;
    int refusal = 0;  // the errno with which an output of ours has refused bytes; 0: none has
    std::vector<LogBuffer> spare;

    bool is_first_refusal(int error) { return error != 0 && std::exchange(refusal, error) == 0; }
    bool takes(std::size_t bytes, LogOrigin origin);
    bool drops();
    void count_lost(LogOrigin origin, std::size_t bytes);
  };
  void start();
  static void run(State& state);
  static void write_queue(State& state, std::unique_lock<std::mutex>& lock);
  static void put_out(State& state, Entry& entry);
  static bool put_out_now(State& state, std::unique_lock<std::mutex>& lock, Entry& entry);
  static void keep_spare(State& state, LogBuffer bytes);

  std::shared_ptr<State> state_;
  // How long the callers have waited, while the answer is no; those with evidence have a patience
  // of their own.
  struct Waiting {
    std::optional<Clock::time_point> since;
    std::uint64_t taken_before = 0;
  };
  Waiting usual_;
  Waiting evidence_;
  std::thread thread_;  // started by the first write: many jobs print nothing
};

}  // namespace ddprun::agent
