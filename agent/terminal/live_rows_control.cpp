// What a worker's control sequences do to its live rows: the cursor, erasing, styles.
#include <algorithm>

#include "agent/terminal/live_rows.hpp"

namespace ddprun::agent {
namespace {

constexpr std::size_t kStyleBytesMax = 64;
constexpr std::size_t kStylesMax = 256;

}  // namespace

void LiveRows::move_up(int rows) {
  auto left = static_cast<std::size_t>(std::clamp(rows, 0, static_cast<int>(kRowsMax)));
  for (; left > 0; --left) {
    if (row_ > 0) {
      --row_;
    } else if (rows_.size() < kRowsMax) {
      rows_.emplace_front();  // what stood there is final already
    }
    rows_[row_].visited = true;
  }
  depth_ = std::min(kRowsMax, std::max(depth_, rows_.size() - 1 - row_));
  moved_up_ = true;
  overflow_.clear();
  beside_bar_ = false;
  redrawn_ = true;
}

void LiveRows::move_down(int rows) {
  for (int i = 0; i < std::min(rows, static_cast<int>(kRowsMax)); ++i) {
    rows_[row_].left_at = written_;
    if (row_ + 1 == rows_.size()) {
      if (rows_.size() >= kRowsMax) return;
      rows_.emplace_back();
    }
    ++row_;
  }
}

void LiveRows::control(const EscapeSequence& sequence, std::string& finished) {
  if (sequence.kind == EscapeSequence::Kind::style) return set_style(sequence.parameters);
  if (sequence.kind != EscapeSequence::Kind::control) return;
  if (sequence.final == 'h' || sequence.final == 'l') {
    if (sequence.parameters != "?25") return;
    cursor_hidden_ = sequence.final == 'l';
    if (!cursor_hidden_) {
      leave_above(0, finished);
      depth_ = 0;
    }
    return;
  }
  const int count = std::max(1, sequence.number(1));
  Row& row = rows_[row_];
  switch (sequence.final) {
    case 'A':
      return move_up(count);
    case 'B':
      return move_down(count);
    case 'C':
      return step_column(count);
    case 'D':
      return step_column(-count);
    case 'E':
      column_ = 0;
      return move_down(count);
    case 'F':
      column_ = 0;
      return move_up(count);
    case 'G':
      return step_column(count - 1 - static_cast<int>(column_));
    case 'H':
    case 'f':  // the corner of the screen is not the worker's: its uppermost live row
      column_ = 0;
      return move_up(static_cast<int>(row_));
    case 'J':
      return erase_rows(sequence.number(0));
    case 'K':
      return erase_in_row(sequence.number(0));
    case 'P':
    case '@': {
      if (column_ >= row.cells.size()) return;
      const auto at = row.cells.begin() + static_cast<std::ptrdiff_t>(column_);
      const auto some = std::min<std::ptrdiff_t>(count, row.cells.end() - at);
      if (sequence.final == 'P') {
        row.cells.erase(at, at + some);
      } else if (row.cells.size() + static_cast<std::size_t>(count) <= kRowColumnsMax) {
        row.cells.insert(at, static_cast<std::size_t>(count), Cell{" ", 0});
      }
      row.redrawn = redrawn_ = true;
      return;
    }
    case 'X':
      for (std::size_t i = column_;
           i < std::min(row.cells.size(), column_ + static_cast<std::size_t>(count)); ++i)
        row.cells[i] = Cell{" ", 0};
      row.redrawn = redrawn_ = true;
      return;
    default:
      return;
  }
}

void LiveRows::erase_in_row(int what) {
  if (column_ > 0 || what == 2) keep_frame();
  Row& row = rows_[row_];
  if (!row.cells.empty()) row.redrawn = redrawn_ = true;
  const std::size_t size = row.cells.size();
  if (what == 0) row.cells.resize(std::min(size, column_));
  if (what == 1) std::fill_n(row.cells.begin(), std::min(size, column_ + 1), Cell{" ", 0});
  if (what == 2) row.cells.clear();
}

void LiveRows::erase_rows(int what) {
  if (what == 0) {
    erase_in_row(0);
    rows_.resize(row_ + 1);
    return;
  }
  if (what == 1) {
    for (std::size_t i = 0; i < row_; ++i) rows_[i].cells.clear();
    return erase_in_row(1);
  }
  // The whole screen is not the worker's: its own rows go.
  for (Row& row : rows_) row.cells.clear();
}

void LiveRows::set_style(std::string_view parameters) {
  if (parameters.empty() || parameters == "0") {
    style_.clear();
    style_number_ = 0;
    return;
  }
  if (parameters.starts_with("0;")) {
    style_ = parameters.substr(2);
  } else if (style_.empty() || style_.size() + parameters.size() >= kStyleBytesMax) {
    style_ = parameters;
  } else if (style_ != parameters) {
    style_ += ';';
    style_ += parameters;
  }
  const auto known = std::find(styles_.begin(), styles_.end(), style_);
  if (known == styles_.end() && styles_.size() >= kStylesMax) return;  // goes on in the one before
  style_number_ = static_cast<std::uint16_t>(known - styles_.begin());
  if (known == styles_.end()) styles_.push_back(style_);
}

}  // namespace ddprun::agent
