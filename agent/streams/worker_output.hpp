// The thread that reads what workers print: assembles lines, puts prefixes on them, remembers the
// last ones of stderr.
#pragma once

#include <sys/ioctl.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "agent/evidence/line_signs.hpp"
#include "agent/streams/console.hpp"
#include "agent/streams/line_assembler.hpp"
#include "agent/streams/log_writer.hpp"
#include "proto/membership_messages.hpp"
#include "proto/result.hpp"
#include "proto/unique_handle.hpp"

namespace ddprun::agent {

inline constexpr std::size_t kTailLines = 20;          ///< of stderr, kept for the report
inline constexpr std::size_t kTailLineBytesMax = 400;  ///< a longer one is shortened there

/// Our end of a worker's stream.
struct OutputSource {
  UniqueFd fd;  ///< a pipe's reading end or a pseudo-terminal's master; non-blocking
  proto::RoundNumber round = 0;
  int local_rank = 0;
  bool standard_error = false;
  bool terminal = false;  ///< a pseudo-terminal: unfinished lines are shown early
  std::string prefix;
  bool to_console = true;   ///< lines are shown
  LogTarget file;           ///< gets every byte as the worker wrote it
  LogTarget filtered_file;  ///< gets the lines with one of `filters`, with their prefix
  std::shared_ptr<const std::vector<std::string>> filters;  ///< needed with filtered_file
  std::shared_ptr<std::atomic<std::uint64_t>> bytes_read;   ///< kept up to date; null: not counted
};

class WorkerOutput {
 public:
  WorkerOutput();
  ~WorkerOutput();
  WorkerOutput(const WorkerOutput&) = delete;
  WorkerOutput& operator=(const WorkerOutput&) = delete;

  void add(std::vector<OutputSource> sources);

  /// A line of ours on stderr, between the workers' lines.
  void say(std::string line);

  /// The user's terminal has this size now: the workers' pseudo-terminals follow.
  void resize(const winsize& size);

  /// Waits until every stream has ended, or the deadline has passed. Streams end when the last
  /// process that holds them does.
  void drain(std::chrono::steady_clock::time_point deadline);

  /// Waits until everything is written, or the deadline has passed.
  void flush(std::chrono::steady_clock::time_point deadline);

  /// The last lines of one worker's stderr; none for a worker whose stderr is not ours to read.
  std::vector<std::string> last_lines(proto::RoundNumber round, int local_rank) const;

  /// What the same stderr said of an exception or a crash, and when.
  LineSigns signs(proto::RoundNumber round, int local_rank) const;

  /// Of console and files together.
  [[nodiscard]] std::uint64_t dropped_bytes() const {
    return console_writer_.dropped_bytes() + file_writer_.dropped_bytes();
  }

 private:
  struct Stream;
  void run();
  void take_new();
  void read(Stream& stream);
  void show(Stream& stream, std::string_view text, LineEnding ending, std::string& out);
  void filter(const Stream& stream, std::string_view text);
  void write_console(bool standard_error, std::string text);
  void end(int fd);

  using TailKey = std::pair<proto::RoundNumber, int>;

  // Two, so that a reader of ours that has stopped does not keep lines from the files.
  LogWriter console_writer_{LogWriter::Kind::console};
  LogWriter file_writer_{LogWriter::Kind::files};
  Console shared_console_;
  Console stdout_console_;
  bool one_console_;  // stdout and stderr are the same terminal, file or pipe
  Console& console_for(bool standard_error) {
    return one_console_ || standard_error ? shared_console_ : stdout_console_;
  }

  UniqueFd wake_;  // eventfd
  UniqueFd epoll_;
  std::map<int, std::unique_ptr<Stream>> streams_;  // by descriptor; the thread's own
  int next_id_ = 0;

  mutable std::mutex mutex_;  // for all below
  std::condition_variable changed_;
  std::vector<OutputSource> new_sources_;
  std::vector<std::string> new_lines_;
  std::optional<winsize> new_size_;
  std::size_t open_ = 0;  // streams that have not ended, the new ones included
  bool stop_ = false;
  struct Tail {
    std::deque<std::string> lines;
    LineSigns signs;
  };
  std::map<TailKey, Tail> tails_;  // of the stderr of the newest rounds

  std::thread thread_;
};

/// The two ends of one stream.
struct StreamPair {
  UniqueFd ours;
  UniqueFd workers;
};

/// A pipe. Errors: the system's.
Result<StreamPair> make_pipe();
/// A pseudo-terminal of the size of the terminal `like`. Errors: the system's.
Result<StreamPair> make_pseudo_terminal(int like);

}  // namespace ddprun::agent
