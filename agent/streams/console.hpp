// Merges the lines of many workers into one output: whole lines, a prefix on each, and what the
// workers draw and draw again (progress bars). Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/streams/line_fold.hpp"
#include "agent/streams/log_buffer.hpp"
#include "agent/streams/stream_text.hpp"

namespace ddprun::agent {

// A few rows at the bottom of a terminal that are drawn again and again, while lines scroll by
// above them. Pure.

/// The cursor rests at the start of the last row. Rows are no wider than the terminal.
class StatusArea {
 public:
  /// Draws the rows in the place of those before; only from the first that differs.
  void draw(const std::vector<std::string>& rows, int columns, LogBuffer& out);
  /// Takes the rows off the screen; the cursor is then at the start of a line.
  void erase(LogBuffer& out);
  /// The terminal has a new width, and has wrapped the rows that are longer.
  void resize(int columns);
  /// What was drawn is lost, or no longer at the cursor.
  void forget() { drawn_.clear(); }

  [[nodiscard]] bool empty() const { return drawn_.empty(); }

 private:
  /// Back to the start of row `first`.
  void go_to(std::size_t first, LogBuffer& out) const;

  std::vector<std::string> drawn_;
  std::vector<int> heights_;  // lines of the terminal that each row takes
};

/// How an output shows what workers draw again.
struct ConsoleSettings {
  /// A terminal that can move its cursor, of a known size: bars have the bottom rows. Else 0.
  int columns = 0;
  int rows = 0;
  /// Any terminal: characters that control it do not get there.
  bool terminal = false;
  /// Without a terminal to draw on, a bar's state becomes a line this often; 0: never before its
  /// end.
  std::chrono::milliseconds bar_interval{10'000};
};

/// One output of ours: a terminal, or a file or pipe. Where stdout and stderr are the same they
/// share one.
class Console {
 public:
  using Clock = std::chrono::steady_clock;

  /// Less is no place for bars.
  static constexpr int kColumnsMin = 10;
  static constexpr int kRowsMin = 3;
  /// So many lines at the end of a file or pipe are read together.
  static constexpr std::uint64_t kRowsInSight = 60;
  static constexpr std::chrono::milliseconds kResizeRest{300};
  /// Bars are drawn this often, however often workers do.
  static constexpr std::chrono::milliseconds kFrame{50};

  explicit Console(ConsoleSettings settings) : settings_(settings) {}

  /// Appends to `out` what showing this line takes. `source` tells whether an unfinished line is
  /// continued.
  void add(int source, std::string_view prefix, std::string_view text, LineEnding ending,
           LogBuffer& out);

  /// Lines of several sources that wait no longer.
  void add_folded(LineFold& fold, bool coloured, Clock::time_point now, LogBuffer& out);

  /// Appends to `out` what showing these lines takes: whole ones that end with newlines.
  void add_lines(int source, std::string_view prefix, std::string_view block, LogBuffer& out);

  /// The source prints a line. True: it is the state of its bar that was written before.
  bool repeats_state(int source, std::string_view text);

  /// Whether the next line of the source is the end of one that is at the cursor.
  [[nodiscard]] bool is_within_line(int source) const { return unfinished_by_ == source; }

  /// Bytes of the source as they are, the same for its next ones.
  void pass(int source, std::string_view bytes, LogBuffer& out);

  /// What the source may still change, each row without a prefix and of at most room() columns.
  /// Empty: nothing. Sources are shown in the order of their numbers.
  void show(int source, std::string_view prefix, std::vector<std::string> rows,
            Clock::time_point now);
  /// Whether `show` would do anything with the source's rows now. False: they are cheaper to make
  /// later, and `change` is enough.
  [[nodiscard]] bool wants_rows(int source, Clock::time_point now) const;
  /// The source has other rows than before, which `draw` asks for when they are due.
  void change(int source, Clock::time_point now);
  /// Whether `change` was the last that was heard of its rows.
  [[nodiscard]] bool lacks_rows(int source) const {
    const auto known = live_.find(source);
    return known != live_.end() && known->second.lacks_rows;
  }
  /// Columns that are left beside this prefix.
  [[nodiscard]] int room(std::string_view prefix) const;

  /// Draws what has changed, where it is time.
  void draw(Clock::time_point now, LogBuffer& out);
  /// When `draw` has something to do next; none: nothing waits.
  [[nodiscard]] std::optional<Clock::time_point> due() const;

  /// Ends an unfinished line and takes bars off the screen, so that something else can be written.
  void end_line(LogBuffer& out);

  /// Prepares for a pause or the end: what passes as it is stays as it is.
  void leave(LogBuffer& out) {
    if (!passes_) end_line(out);
  }

  /// Draws nothing before then: the terminal is another program's for now.
  void rest_until(Clock::time_point time) { draws_from_ = std::max(draws_from_, time); }

  /// The terminal has another size now. While its edge is dragged nothing is drawn: rows for the
  /// width of before would wrap.
  void resize(int columns, int rows, Clock::time_point now, LogBuffer& out);
  [[nodiscard]] int columns() const { return settings_.columns; }
  [[nodiscard]] bool has_size(int columns, int rows) const {
    return settings_.columns == columns && settings_.rows == rows;
  }
  /// Bytes that should have gone out are lost: what is on the screen is not known.
  void forget_screen();

  /// Rows of the terminal that whole lines have taken so far; elsewhere lines.
  [[nodiscard]] std::uint64_t rows_written() const { return rows_written_; }
  /// The first of the written rows that a reader still has in sight: on a terminal, or near the end
  /// of a file or pipe.
  [[nodiscard]] std::uint64_t first_in_sight() const {
    const auto rows = draws() ? static_cast<std::uint64_t>(settings_.rows) : kRowsInSight;
    return rows_written_ < rows ? 0 : rows_written_ - rows + 1;
  }
  /// Rows of the terminal that a line of so many columns takes.
  [[nodiscard]] std::uint64_t rows_of(int columns) const {
    if (!draws() || columns <= settings_.columns) return 1;
    return static_cast<std::uint64_t>((columns + settings_.columns - 1) / settings_.columns);
  }

  /// Whether the cursor is behind something.
  [[nodiscard]] bool unfinished() const { return unfinished_by_ != kNobody || !area_.empty(); }

  [[nodiscard]] bool draws() const {
    return settings_.columns >= kColumnsMin && settings_.rows >= kRowsMin;
  }

 private:
  static constexpr int kNobody = -2;
  static constexpr int kSeveral = -3;

  struct Live {
    std::string prefix;
    std::vector<std::string> rows;
    // Where nothing can be drawn:
    std::vector<std::string> written;           // its last state that became lines
    Clock::time_point written_at;               // then, or when it printed a line
    std::optional<Clock::time_point> ended_at;  // there was a bar until then
    bool changed = false;
    bool printed = false;
    bool lacks_rows = false;  // there are others than these
  };

  /// Takes what the source draws. False: it is as it was.
  bool take_rows(Live& live, std::vector<std::string> rows, Clock::time_point now) const;

  [[nodiscard]] bool may_draw(Clock::time_point now) const {
    return now >= draws_from_ && (area_.empty() || now >= drawn_at_ + kFrame);
  }
  void draw_area(LogBuffer& out);
  void write_states(Clock::time_point now, LogBuffer& out);

  ConsoleSettings settings_;
  std::uint64_t rows_written_ = 0;
  int unfinished_by_ = kNobody;  // the worker with the unfinished line at the cursor
  bool passes_ = false;          // bytes have passed
  std::map<int, Live> live_;
  StatusArea area_;
  bool changed_ = false;  // since the area was drawn
  Clock::time_point drawn_at_{};
  Clock::time_point draws_from_{};
};

/// The text of a line without PyTorch's own `[rank3]: `, where it says what our prefix says, too.
std::string_view without_own_rank(std::string_view prefix, std::string_view line);

}  // namespace ddprun::agent
