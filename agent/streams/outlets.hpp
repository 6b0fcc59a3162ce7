// Where the workers' lines go: our stdout and stderr, each with its console and its writer, and the
// writer of the log files.
#pragma once

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "agent/streams/console.hpp"
#include "agent/streams/line_fold.hpp"
#include "agent/streams/log_buffer.hpp"
#include "agent/streams/log_settings.hpp"
#include "agent/streams/log_writer.hpp"
#include "agent/streams/recent_output.hpp"
#include "agent/terminal/terminal_size.hpp"
#include "base/byte_output.hpp"

namespace ddprun::agent {

struct OutputSettings {
  LogPolicy policy = LogPolicy::automatic;
  /// How often a progress bar's state becomes a line where it can't be drawn; 0: at its end only.
  std::chrono::milliseconds bar_interval{10'000};
  int stdout_fd = STDOUT_FILENO;  ///< borrowed
  int stderr_fd = STDERR_FILENO;
  /// From the thread that reads, each time that it has caught up, and that the last stream has
  /// ended with all lines of ours before; see WorkerOutput.
  std::function<void()> caught_up = {};
  std::shared_ptr<RecentOutput> recent = {};  ///< null: nobody looks into the job
};

/// Gives the bytes to the writer. Much goes away with its buffer; of little a copy does, because a
/// queue of large buffers with a line in each would be as large as memory.
void hand_over(LogWriter& writer, const std::shared_ptr<ByteOutput>& output, LogBuffer& bytes,
               LogOrigin origin = LogOrigin::workers);

/// Our stdout or stderr. Of the thread that reads workers, but for the writer's functions that are
/// for any thread.
struct Outlet {
  Outlet(int own_fd, int other_fd, const OutputSettings& settings, std::function<void()> room_made);

  /// What has gathered goes to the writer.
  void put_out();
  /// Lines that have waited long enough for the same of other ranks.
  void show_folded(std::chrono::steady_clock::time_point now) {
    console.add_folded(fold, coloured, now, bytes);
  }
  [[nodiscard]] TerminalSize size_to_draw() const {
    return is_ours_alone(fd, other) ? drawing_size(fd) : TerminalSize{};
  }

  int fd;
  int other;  // the other one of the two
  // One for each descriptor, so that a reader of ours that has stopped keeps lines neither from the
  // other nor from the files.
  LogWriter writer;
  std::shared_ptr<ByteOutput> output;
  Console console;
  LineFold fold;
  bool coloured = false;  // the prefixes
  LogBuffer bytes;        // gathered until everything that can be read now has been
  std::uint64_t dropped = 0;
};

/// What a reader of our output has before them.
struct OutputSight {
  bool unfinished_out = false;  ///< the last line on our stdout was not ended
  bool unfinished_err = false;
  std::uint64_t first = 0;  ///< as Console::first_in_sight, of the one with stderr
  int columns = 0;          ///< of that terminal; 0: it is none
};

class Outlets {
 public:
  /// `room_made`: as LogWriter's.
  Outlets(const OutputSettings& settings, const std::function<void()>& room_made);

  /// Where stdout and stderr are the same terminal, file or pipe, that is one for both.
  Outlet& of(bool standard_error) { return one_console_ || standard_error ? stderr_ : stdout_; }
  std::array<Outlet*, 2> both() { return {&stdout_, &stderr_}; }
  LogWriter& files() { return files_; }
  std::array<LogWriter*, 3> writers() { return {&stdout_.writer, &stderr_.writer, &files_}; }

  void put_out() {
    for (Outlet* outlet : both()) outlet->put_out();
  }
  void show_folded(std::chrono::steady_clock::time_point now);
  /// From now on no line is held back; those that are go to the writers.
  void end_folds();
  [[nodiscard]] OutputSight sight();

  // From any thread:

  /// Whether our readers have everything that was read so far. Waits for that until the deadline.
  bool finish_consoles(std::chrono::steady_clock::time_point deadline);
  void give_up_consoles();
  [[nodiscard]] bool reader_is_slow(std::chrono::steady_clock::time_point now) const {
    return stdout_.writer.is_slow(now) || stderr_.writer.is_slow(now);
  }
  [[nodiscard]] std::uint64_t dropped_bytes() const {
    return stdout_.writer.dropped_bytes() + stderr_.writer.dropped_bytes() + files_.dropped_bytes();
  }
  [[nodiscard]] int refusal() const {
    const int of_stdout = stdout_.writer.refusal();
    return of_stdout != 0 ? of_stdout : stderr_.writer.refusal();
  }

 private:
  const bool one_console_;
  Outlet stdout_;  // unused where both are one
  Outlet stderr_;
  LogWriter files_;
  bool folds_ = true;  // lines may be held back
};

}  // namespace ddprun::agent
