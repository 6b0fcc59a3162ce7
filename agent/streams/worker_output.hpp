// The thread that reads what workers print: assembles lines, puts prefixes on them, remembers the
// last ones of stderr.
#pragma once

#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "agent/streams/console.hpp"
#include "agent/streams/line_assembler.hpp"
#include "agent/streams/line_prefix.hpp"
#include "agent/streams/log_file.hpp"
#include "agent/streams/log_writer.hpp"
#include "agent/streams/stream_tail.hpp"
#include "proto/membership_messages.hpp"
#include "proto/unique_handle.hpp"

namespace ddprun::agent {

/// Our end of a worker's stream.
struct OutputSource {
  UniqueFd fd;  ///< a pipe's reading end or a pseudo-terminal's master; non-blocking
  proto::RoundNumber round = 0;
  int local_rank = 0;
  bool standard_error = false;
  bool terminal = false;  ///< a pseudo-terminal: unfinished lines are shown early
  LinePrefix prefix;
  bool coloured = false;          ///< the prefix, on the console
  bool to_console = true;         ///< lines are shown
  std::shared_ptr<LogFile> file;  ///< gets every byte as the worker wrote it; null: none
  std::shared_ptr<LogFile>
      filtered_file;  ///< gets the lines with one of `filters`, with their prefix
  std::shared_ptr<const std::vector<std::string>> filters;  ///< needed with filtered_file
  std::shared_ptr<std::atomic<std::uint64_t>> bytes_read;   ///< kept up to date; null: not counted
};

struct OutputSettings {
  LogPolicy policy = LogPolicy::drop;
  int stdout_fd = STDOUT_FILENO;  ///< borrowed
  int stderr_fd = STDERR_FILENO;
};

class WorkerOutput {
 public:
  explicit WorkerOutput(OutputSettings settings = {});
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

  /// The end: waits until everything is written, or the deadline has passed. What is not written
  /// then, queued or still in a dead worker's pipe, is dropped and counted, and so is what comes
  /// later. A console that is stuck keeps nothing from the files.
  void flush(std::chrono::steady_clock::time_point deadline);

  /// The last lines of one worker's stderr; none for a worker whose stderr is not ours to read.
  std::vector<std::string> last_lines(proto::RoundNumber round, int local_rank) const;

  /// What the same stderr said of an exception or a crash, and when.
  LineSigns signs(proto::RoundNumber round, int local_rank) const;

  /// Of console and files together. Exact after `flush`.
  [[nodiscard]] std::uint64_t dropped_bytes() const {
    return console_writer_.dropped_bytes() + file_writer_.dropped_bytes();
  }

  /// Whether our stdout, or stderr, ends within a line that no worker has ended. Exact after
  /// `flush`.
  [[nodiscard]] bool unfinished_line(bool standard_error) const;

 private:
  struct Stream;
  struct LineSink;
  struct Outlet {  // stdout or stderr
    std::shared_ptr<LogOutput> output;
    LogBuffer bytes;  // gathered until everything that can be read now has been
  };

  void run();
  bool take_events();
  void show_unfinished();
  void take_new();
  void read(Stream& stream);
  void end_streams();
  void note_unfinished();
  void rest();
  void put_out(Outlet& outlet);
  static void hand_over(LogWriter& writer, const std::shared_ptr<LogOutput>& output,
                        LogBuffer& bytes);
  Outlet& outlet_for(bool standard_error);
  Console& console_for(bool standard_error) {
    return one_console_ || standard_error ? shared_console_ : stdout_console_;
  }

  using TailKey = std::pair<proto::RoundNumber, int>;

  // Two, so that a reader of ours that has stopped does not keep lines from the files.
  LogWriter console_writer_;
  LogWriter file_writer_;
  Outlet stdout_;
  Outlet stderr_;
  Console shared_console_;
  Console stdout_console_;
  bool one_console_;  // stdout and stderr are the same terminal, file or pipe

  UniqueFd wake_;  // eventfd
  UniqueFd epoll_;
  std::map<int, std::unique_ptr<Stream>> streams_;  // by descriptor; the thread's own
  int next_id_ = 0;
  std::vector<int> ended_;  // streams that have come to their end
  LogBuffer read_;          // what was read last
  LogBuffer filtered_;      // lines of it that a filter found
  bool full_ = false;       // a worker wrote so much that reading must not rest

  mutable std::mutex mutex_;  // for all below
  std::condition_variable changed_;
  std::vector<OutputSource> new_sources_;
  std::vector<std::string> new_lines_;
  std::optional<winsize> new_size_;
  std::size_t open_ = 0;  // streams that have not ended, the new ones included
  bool stop_ = false;
  bool unfinished_out_ = false;  // the last line on our stdout was not ended
  bool unfinished_err_ = false;
  bool hurry_ = false;                   // somebody waits for the streams to end
  std::map<TailKey, StreamTail> tails_;  // of the stderr of the newest rounds

  std::thread thread_;
};

}  // namespace ddprun::agent
