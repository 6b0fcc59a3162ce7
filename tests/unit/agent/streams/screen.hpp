// A terminal for tests: what a person would see after some bytes, with all that has scrolled away.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "agent/terminal/terminal_text.hpp"

namespace ddprun::test {

/// Knows what our own console writes: text, "\r", "\n", up, erase to the end of the line or screen.
/// Text wraps at the width, as on xterm: only when the next character comes.
class Screen {
 public:
  explicit Screen(std::size_t columns) : columns_(columns) {}

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      std::size_t taken = 1;
      if (bytes[0] == agent::kEscape) {
        const auto sequence = agent::read_escape(bytes);
        taken = sequence.bytes == 0 ? bytes.size() : sequence.bytes;
        if (sequence.final == 'A') row_ -= static_cast<std::size_t>(sequence.number(1));
        if (sequence.final == 'K') rows_[row_].resize(std::min(rows_[row_].size(), column()));
        if (sequence.final == 'J') {
          rows_[row_].resize(std::min(rows_[row_].size(), column()));
          rows_.resize(row_ + 1);
        }
      } else if (bytes[0] == '\r') {
        column_ = 0;
      } else if (bytes[0] == '\n') {
        next_row();
      } else {
        if (column_ == columns_) next_row();
        if (rows_[row_].size() <= column_) rows_[row_].resize(column_ + 1, ' ');
        rows_[row_][column_++] = bytes[0];
      }
      bytes.remove_prefix(taken);
    }
  }

  /// All rows that were ever there, without blanks at their ends and empty ones at the end.
  [[nodiscard]] std::string text() const {
    std::string all;
    for (const std::string& row : rows_) {
      const auto end = row.find_last_not_of(' ');
      all += row.substr(0, end == std::string::npos ? 0 : end + 1) + "\n";
    }
    while (all.ends_with("\n\n")) all.pop_back();
    return all == "\n" ? "" : all;
  }
  [[nodiscard]] std::size_t rows() const { return rows_.size(); }

 private:
  /// Behind the last column the cursor stands on it.
  [[nodiscard]] std::size_t column() const { return std::min(column_, columns_ - 1); }
  void next_row() {
    column_ = 0;
    if (++row_ == rows_.size()) rows_.emplace_back();
  }

  std::size_t columns_;
  std::vector<std::string> rows_{""};
  std::size_t row_ = 0;
  std::size_t column_ = 0;
};

}  // namespace ddprun::test
