// What workers print, as ddpctl shows it: whole lines, each with its rank.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "agent/streams/stream_text.hpp"
#include "base/unique_handle.hpp"

namespace ddprun::ctl {

/// One stream of one worker, in the round in which it was started.
struct LogStream {
  std::int64_t round = 0;
  std::int64_t rank = 0;
  std::string name;  ///< `stdout`, `stderr` or `both`

  auto operator<=>(const LogStream&) const = default;
};

/// Pure.
class LogLines {
 public:
  using Clock = std::chrono::steady_clock;
  /// How often what is not finished becomes a line, such as the state of a progress bar.
  static constexpr std::chrono::seconds kUnfinishedEvery{10};

  /// `for_terminal`: no character of a worker may control it.
  explicit LogLines(bool for_terminal) : for_terminal_(for_terminal) {}

  void add(const LogStream& stream, std::string_view bytes, Clock::time_point now);
  /// Time has passed.
  void settle(Clock::time_point now);
  /// Nothing more comes.
  void finish();
  /// The lines since the last call.
  std::string take() { return std::exchange(lines_, {}); }

 private:
  struct Text {
    agent::StreamText text;
    Clock::time_point shown_at;
    std::vector<std::string> shown;  // what was not finished then
  };
  struct Sink;
  void show(const LogStream& stream, std::string_view line);
  void finish_before(const LogStream& stream);
  void finish(const LogStream& stream, Text& text);

  const bool for_terminal_;
  std::map<LogStream, Text> streams_;
  std::string lines_;
};

/// Log files that workers write themselves.
class LogFiles {
 public:
  /// The end of the file, from the beginning of a line on; where it cannot be opened yet, all of it
  /// later. Takes the place of the same stream's file in an earlier round.
  void add(const LogStream& stream, const std::string& path, LogLines& lines,
           LogLines::Clock::time_point now);
  /// What has been written since then.
  void read(LogLines& lines, LogLines::Clock::time_point now);
  [[nodiscard]] bool empty() const { return files_.empty(); }

 private:
  struct File {
    std::string path;
    UniqueFd fd;  // read so far; none: it is not there yet
  };
  static void read(const LogStream& stream, File& file, LogLines& lines,
                   LogLines::Clock::time_point now);

  std::map<LogStream, File> files_;
};

}  // namespace ddprun::ctl
