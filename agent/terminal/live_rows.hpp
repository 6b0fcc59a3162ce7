// The rows that a worker has drawn and may still change: progress bars, a table that is drawn again
// and again. A very small terminal. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/terminal/terminal_text.hpp"

namespace ddprun::agent {

/// The bytes without the states of a row that others behind them hide: what is between two carriage
/// returns and is not wider than something after it. The last state stays, and so does the one
/// before it, which tells a bar from text. `kept` holds the bytes where some are left out.
std::string_view without_hidden_states(std::string_view bytes, std::string& kept);

/// A line is final when the worker has left it behind with a newline and does not come back:
/// programs that move the cursor up are given as many rows as they have ever moved, others none.
class LiveRows {
 public:
  using Clock = std::chrono::steady_clock;

  /// Rows that are kept for a program that moves up; those above are final.
  static constexpr std::size_t kRowsMax = 64;
  static constexpr std::size_t kRowColumnsMax = 64 * 1024;
  static constexpr std::size_t kCellsMax = 256 * 1024;
  /// What is written to the end of a bar so long after it was drawn is a line of its own; behind a
  /// bar that fills the terminal's width it is so at once.
  static constexpr std::chrono::milliseconds kBarRests{20};
  /// A finished row that nothing has come back to for so long is final.
  static constexpr std::chrono::milliseconds kSettle{300};
  /// How long a row stays open that something did come back to before.
  static constexpr std::chrono::seconds kSettleDrawn{2};

  /// The width of the worker's terminal; 0: it has none. A bar that is longer is cut there.
  void set_columns(int columns);
  /// On a terminal empty lines wait for the text below them: they may be room for others' bars.
  void hold_empty_lines(bool hold) { holds_empty_ = hold; }

  /// Takes bytes, and appends to `finished` the lines that are final, each with a newline. True: a
  /// row was drawn again.
  bool write(std::string_view bytes, Clock::time_point now, std::string& finished);

  /// Appends the lines that are final because nothing came back to them for long enough.
  void settle(Clock::time_point now, std::string& finished);
  /// When `settle` would find something; none: never.
  [[nodiscard]] std::optional<Clock::time_point> settles_at() const;

  /// The stream has ended: what is there is final, without rows below the cursor.
  void finish(std::string& finished);

  /// Nothing is held: whole lines need not come here.
  [[nodiscard]] bool idle() const {
    return rows_.size() == 1 && rows_[0].cells.empty() && !rows_[0].redrawn && pending_.empty() &&
           overflow_.empty() && !cursor_hidden_;
  }

  /// The rows with something in them, from top to bottom, each cut to so many columns.
  [[nodiscard]] std::vector<std::string> shown(int columns_max) const;

 private:
  /// One column. A character that takes two is in the first, and the second has no text.
  struct Cell {
    char text[9] = {};
    std::uint16_t style = 0;
  };
  struct Row {
    /// Cells up to the last one that shows something.
    [[nodiscard]] std::size_t shown_cells(std::size_t columns_max) const;

    std::vector<Cell> cells;
    bool redrawn = false;         // a part of it was written again: it is a bar
    bool visited = false;         // the cursor came up to it
    std::vector<Cell> frame;      // as it was drawn before
    bool too_long = false;        // that was longer than the terminal
    Clock::time_point left_at{};  // when the cursor went to the row below
    std::string tail;             // of a line of text, what is beyond the terminal's width
  };

  /// Where the text behind a bar begins, which a program has printed without ending the bar.
  [[nodiscard]] bool text_behind_bar() const;
  void split_off_text();
  void carriage_return();
  void keep_frame();
  [[nodiscard]] bool like_frame() const;
  void put(std::string_view character);
  void put_cell(std::string_view text);
  void newline(std::string& finished);
  void move_up(int rows);
  void move_down(int rows);
  void leave_out_of_reach(std::string& finished);
  void control(const EscapeSequence& sequence, std::string& finished);
  void erase_in_row(int what);
  void erase_rows(int what);
  void set_style(std::string_view parameters);
  void leave_front(std::string& finished);
  void leave_above(std::size_t kept, std::string& finished);
  [[nodiscard]] bool all_empty() const;
  [[nodiscard]] std::size_t cells() const;
  [[nodiscard]] std::string text_of(const Row& row, int columns_max) const;
  /// As a line that is final.
  [[nodiscard]] std::string line_of(const Row& row) const;
  void step_column(int columns);

  int columns_ = 0;
  bool holds_empty_ = false;
  std::deque<Row> rows_{1};
  std::size_t row_ = 0;
  std::size_t column_ = 0;
  std::size_t depth_ = 0;       // how far the program moves up
  bool moved_up_ = false;       // and has written nothing since
  bool cursor_hidden_ = false;  // as programs do that draw several rows
  bool beside_bar_ = false;     // the cursor is on a line of text below a bar that stays
  bool redrawn_ = false;        // by the present write
  std::string overflow_;        // that line, or what is beyond the width of the present row
  std::string pending_;         // the beginning of an escape sequence or a character
  std::string style_;           // parameters of the present style
  std::uint16_t style_number_ = 0;
  std::vector<std::string> styles_{""};
  Clock::time_point written_{};
};

}  // namespace ddprun::agent
