// The thread that reads what workers print: assembles lines, puts prefixes on them, remembers the
// last ones of stderr. It never waits for a reader of ours: a stream with bytes that find no
// place is left alone, and the others are read.
#pragma once

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "agent/streams/console.hpp"
#include "agent/streams/line_fold.hpp"
#include "agent/streams/log_writer.hpp"
#include "agent/streams/output_source.hpp"
#include "agent/streams/stream_tail.hpp"
#include "agent/streams/terminal_size.hpp"
#include "base/result.hpp"
#include "base/unique_handle.hpp"
#include "proto/membership_messages.hpp"

namespace ddprun::agent {

struct OutputStream;

struct OutputSettings {
  LogPolicy policy = LogPolicy::automatic;
  /// How often a progress bar's state becomes a line where it can't be drawn; 0: at its end only.
  std::chrono::milliseconds bar_interval{10'000};
  int stdout_fd = STDOUT_FILENO;  ///< borrowed
  int stderr_fd = STDERR_FILENO;
  std::function<void()> caught_up = {};  ///< from the thread, each time that it has; see there
};

class WorkerOutput {
 public:
  explicit WorkerOutput(OutputSettings settings = {});
  ~WorkerOutput();
  WorkerOutput(const WorkerOutput&) = delete;
  WorkerOutput& operator=(const WorkerOutput&) = delete;

  /// False: the system refused a descriptor; then nothing else may be called.
  [[nodiscard]] bool usable() const { return usable_; }

  /// Starts the thread. Errors: those of that, and where the system cannot watch a source; the
  /// sources are closed then.
  [[nodiscard]] ErrorCode add(std::vector<OutputSource> sources);

  /// A line of ours on stderr, between the workers' lines. False: there is no thread that could
  /// print it.
  [[nodiscard]] bool say(std::string line);

  /// The user's terminal has another size now: the workers' pseudo-terminals follow. Waits until
  /// they have, or the deadline has passed.
  void resize(std::chrono::steady_clock::time_point deadline);

  /// The job pauses and the shell takes the terminal: takes progress bars off the screen and draws
  /// none, until `resume`. Waits until that is done, or the deadline has passed.
  void pause(std::chrono::steady_clock::time_point deadline);
  void resume();

  /// Waits until what workers have written by now is read, or the deadline has passed. A thread
  /// that is short of processor time reads an exception late. Streams that are paused,
  /// because a reader of ours is slow or has stopped, are not waited for. False: the deadline has
  /// passed.
  bool catch_up(std::chrono::steady_clock::time_point deadline);
  /// Begins it and waits for nothing: OutputSettings::caught_up is called when it has ended.
  /// Returns its number.
  std::uint64_t begin_catch_up();
  [[nodiscard]] bool has_caught_up(std::uint64_t number) const;

  /// The processes of all rounds so far have ended: waits until every stream of theirs has been
  /// read to its end, or the deadline has passed. From now on no console is waited for with them,
  /// whatever the policy; what has no place is dropped and counted.
  void drain(std::chrono::steady_clock::time_point deadline);

  /// Whether our readers have everything that was read so far. Waits for that until the deadline.
  bool shown_by(std::chrono::steady_clock::time_point deadline);

  /// Whether a reader that has not everything yet is slow, and not stuck: it is worth waiting for.
  [[nodiscard]] bool reader_is_slow(std::chrono::steady_clock::time_point now) const {
    return stdout_writer_.is_slow(now) || stderr_writer_.is_slow(now);
  }

  /// The end: waits until everything is written, or the deadline has passed. What is not written
  /// then, queued or still in a dead worker's pipe, is dropped and counted, and so is what comes
  /// later. A console that is stuck keeps nothing from the files.
  void flush(std::chrono::steady_clock::time_point deadline);

  /// The last lines of one worker's stderr; none where its stderr is not ours to read.
  std::vector<std::string> last_lines(proto::RoundNumber round, int local_rank) const;

  /// What the same stderr said of an exception or a crash, and when.
  LineSigns signs(proto::RoundNumber round, int local_rank) const;

  /// Whether a reader of our output has just read these last lines there: they still stand on the
  /// terminal, are near the end of a file or pipe, or went out last and as they came. Exact after
  /// `flush`.
  [[nodiscard]] bool last_lines_in_sight(proto::RoundNumber round, int local_rank) const;

  /// Bytes that console and files together have lost. Exact after `flush`.
  [[nodiscard]] std::uint64_t dropped_bytes() const {
    return stdout_writer_.dropped_bytes() + stderr_writer_.dropped_bytes() +
           file_writer_.dropped_bytes();
  }

  /// The errno with which our stdout or stderr refused bytes; 0: neither did. Exact after `flush`.
  [[nodiscard]] int refusal() const {
    const int of_stdout = stdout_writer_.refusal();
    return of_stdout != 0 ? of_stdout : stderr_writer_.refusal();
  }

  /// Whether our stdout, or stderr, ends within a line that no worker has ended. Exact after
  /// `flush`.
  [[nodiscard]] bool unfinished_line(bool standard_error) const;

 private:
  struct Outlet {  // stdout or stderr
    int fd;
    LogWriter& writer;
    std::shared_ptr<ByteOutput> output;
    Console console;
    LineFold fold = {};
    bool coloured = false;  // the prefixes
    LogBuffer bytes = {};   // gathered until everything that can be read now has been
    std::uint64_t dropped = 0;
  };

  ErrorCode start();
  void wake() const;
  void run();
  bool may_read(const OutputStream& stream);
  [[nodiscard]] ErrorCode listen_to(int fd) const;
  [[nodiscard]] ErrorCode listen_to_all(const std::vector<OutputSource>& sources) const;
  void resume_streams();
  [[nodiscard]] int wait_limit(std::chrono::steady_clock::time_point now);
  bool take_events();
  void read_or_pause(OutputStream& stream);
  void read_behind();
  void take_new();
  void take_lines(const std::vector<std::string>& lines);
  void read(OutputStream& stream);
  StreamTail* tail_of(const OutputStream& stream);
  void look_at_unfinished(std::chrono::steady_clock::time_point now);
  void show_unfinished(OutputStream& stream, std::chrono::steady_clock::time_point now);
  void draw(std::chrono::steady_clock::time_point now);
  void make_rows(std::chrono::steady_clock::time_point now);
  void change_size();
  void take_size(OutputStream& stream) const;
  [[nodiscard]] static bool is_no_prompt(std::string_view bytes);
  [[nodiscard]] TerminalSize size_to_draw(const Outlet& outlet) const;
  void end_unread_streams();
  void end_streams();
  void note_unfinished();
  void rest();
  void count_ranks();
  void show_folded(std::chrono::steady_clock::time_point now);
  void end_fold();
  void put_out(Outlet& outlet);
  static void hand_over(LogWriter& writer, const std::shared_ptr<ByteOutput>& output,
                        LogBuffer& bytes, LogOrigin origin = LogOrigin::workers);
  Outlet& outlet_for(bool standard_error) {
    return one_console_ || standard_error ? stderr_ : stdout_;
  }
  [[nodiscard]] const Outlet& outlet_for(bool standard_error) const {
    return one_console_ || standard_error ? stderr_ : stdout_;
  }

  using TailKey = std::pair<proto::RoundNumber, int>;

  bool one_console_;  // stdout and stderr are the same terminal, file or pipe
  std::chrono::milliseconds bar_interval_;
  const std::function<void()> caught_up_;
  // One for each descriptor, so that a reader of ours that has stopped keeps lines neither from the
  // other nor from the files.
  LogWriter stdout_writer_;  // unused where both are one
  LogWriter stderr_writer_;
  LogWriter file_writer_;
  Outlet stdout_;
  Outlet stderr_;

  UniqueFd wake_;  // eventfd
  UniqueFd epoll_;
  bool usable_;
  std::map<int, std::unique_ptr<OutputStream>> streams_;  // by descriptor; the thread's own
  int next_id_ = 0;
  std::vector<int> ended_;         // streams that have come to their end
  LogBuffer read_;                 // what was read last
  bool screen_paused_ = false;     // no bar is on the screen while the shell has it
  bool folds_ = true;              // lines may be held back
  bool copies_ = false;            // a stream goes on as it comes
  bool rests_ = true;              // no copy has to keep up with a stream that we do not have
  bool full_ = false;              // a worker wrote so much that reading must not rest
  std::vector<int> paused_;        // streams that are left alone, the longest first
  bool unwatched_ = false;         // the system refused to watch one of these again
  std::uint64_t catching_up_ = 0;  // the newest request that the thread knows
  proto::RoundNumber over_ = 0;    // of the rounds below it no worker lives

  mutable std::mutex mutex_;  // for all below
  std::condition_variable changed_;
  std::vector<OutputSource> new_sources_;
  std::vector<std::string> new_lines_;
  std::uint64_t resizes_wanted_ = 0;
  std::uint64_t resizes_done_ = 0;
  std::uint64_t catch_ups_wanted_ = 0;
  std::uint64_t catch_ups_done_ = 0;  // changed by the thread alone
  bool paused_drawing_ = false;       // the shell has the terminal
  bool screen_left_ = false;          // and no bar of ours is on it
  bool flush_begun_ = false;          // no line is held back any more
  bool fold_over_ = false;            // and those that were have gone to the writers
  std::size_t open_ = 0;              // streams that have not ended, the new ones included
  bool stop_ = false;
  bool unfinished_out_ = false;  // the last line on our stdout was not ended
  bool unfinished_err_ = false;
  std::uint64_t first_in_sight_ = 0;     // see Console
  int screen_columns_ = 0;               // of that terminal; 0: it is none
  bool end_requested_ = false;           // the agent waits for the streams to end
  proto::RoundNumber next_round_ = 0;    // above all of which we have streams
  proto::RoundNumber over_next_ = 0;     // what `over_` shall be
  std::map<TailKey, StreamTail> tails_;  // of the stderr of the newest rounds

  std::thread thread_;
};

}  // namespace ddprun::agent
