#include "agent/streams/live_rows.hpp"

#include <algorithm>
#include <cstring>

namespace ddprun::agent {
namespace {

constexpr std::size_t kStyleBytesMax = 64;
constexpr std::size_t kStylesMax = 256;
constexpr std::size_t kTabColumns = 8;

bool is_blank(const char* text) { return std::strcmp(text, " ") == 0; }

}  // namespace

void LiveRows::set_columns(int columns) {
  columns_ = columns;
  if (columns <= 0) return;
  for (Row& row : rows_) {
    if (row.redrawn && row.cells.size() > static_cast<std::size_t>(columns))
      row.cells.resize(static_cast<std::size_t>(columns));
  }
}

bool LiveRows::write(std::string_view bytes, Clock::time_point now, std::string& finished) {
  redrawn_ = false;
  std::string joined;
  if (!pending_.empty()) {
    joined = std::move(pending_);
    joined += bytes;
    pending_.clear();
    bytes = joined;
  }
  const Row& row = rows_[row_];
  if (row.redrawn && column_ > 0 && column_ == row.cells.size() && now - written_ >= kBarRests)
    beside_bar_ = true;
  written_ = now;
  while (!bytes.empty()) {
    const char c = bytes.front();
    std::size_t taken = 1;
    if (c == kEscape) {
      const EscapeSequence sequence = read_escape(bytes);
      if (sequence.kind == EscapeSequence::Kind::incomplete) {
        pending_ = bytes;
        break;
      }
      taken = sequence.bytes;
      control(sequence, finished);
    } else if (c == '\n') {
      newline(finished);
    } else if (c == '\r') {
      step_column(-static_cast<int>(column_));
      rows_[row_].redrawn = true;
      overflow_.clear();
      beside_bar_ = false;
    } else if (c == '\b') {
      step_column(-1);
    } else if (c == '\t') {
      for (auto left = kTabColumns - column_ % kTabColumns; left > 0; --left) put(" ");
    } else if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) {
      taken = character_bytes(bytes);
      if (taken == 0 && is_character_part(bytes)) {
        pending_ = bytes;
        break;
      }
      taken = std::max<std::size_t>(1, taken);
      put(bytes.substr(0, taken));
    }
    bytes.remove_prefix(taken);
  }
  return redrawn_;
}

/// Going back makes what is there a thing that is drawn again.
void LiveRows::step_column(int columns) {
  Row& row = rows_[row_];
  if (columns < 0 && !row.cells.empty()) {
    row.redrawn = true;
    redrawn_ = true;
  }
  const auto target = static_cast<std::ptrdiff_t>(column_) + columns;
  column_ = static_cast<std::size_t>(
      std::clamp<std::ptrdiff_t>(target, 0, static_cast<std::ptrdiff_t>(kRowColumnsMax)));
}

void LiveRows::put(std::string_view character) {
  const Row& row = rows_[row_];
  const bool beyond = row.redrawn && columns_ > 0 && column_ >= static_cast<std::size_t>(columns_);
  if (beyond || beside_bar_) {
    if (overflow_.size() < kRowColumnsMax) overflow_ += character;
    return;
  }
  switch (character_columns(character)) {
    case 0: {
      if (column_ == 0 || column_ > row.cells.size()) return;
      char* text = rows_[row_].cells[column_ - 1].text;
      const std::size_t used = std::strlen(text);
      if (used > 0 && used + character.size() < sizeof Cell::text)
        std::memcpy(text + used, character.data(), character.size());
      return;
    }
    case 2:
      put_cell(character);
      put_cell("");
      return;
    default:
      put_cell(character);
  }
}

void LiveRows::put_cell(std::string_view text) {
  if (column_ >= kRowColumnsMax) return;
  std::vector<Cell>& cells = rows_[row_].cells;
  const Cell blank{" ", 0};
  if (column_ >= cells.size()) cells.resize(column_ + 1, blank);
  // Half of a wide character is none.
  const bool second_half = cells[column_].text[0] == '\0' && !text.empty() && column_ > 0;
  if (second_half) cells[column_ - 1] = blank;
  if (column_ + 1 < cells.size() && cells[column_ + 1].text[0] == '\0') cells[column_ + 1] = blank;
  Cell cell{{}, style_number_};
  std::memcpy(cell.text, text.data(), std::min(text.size(), sizeof cell.text - 1));
  cells[column_] = cell;
  ++column_;
}

void LiveRows::newline(std::string& finished) {
  column_ = 0;
  beside_bar_ = false;
  // Programs that draw several rows, or hide the cursor, draw no line of text behind a bar: theirs
  // is only too long.
  const bool draws_rows = cursor_hidden_ || rows_[row_].visited;
  if (draws_rows) overflow_.clear();
  if (!overflow_.empty()) {  // the bar stays where it is
    finished += overflow_;
    finished += '\n';
    overflow_.clear();
    return;
  }
  ++row_;
  if (row_ == rows_.size()) rows_.emplace_back();
  if (holds_empty_ && rows_.size() <= kRowsMax && all_empty()) return;
  leave_above(cursor_hidden_ && depth_ == 0 ? kRowsMax : depth_, finished);
}

/// The front row is final.
void LiveRows::leave_front(std::string& finished) {
  finished += text_of(rows_.front(), static_cast<int>(kRowColumnsMax));
  finished += '\n';
  rows_.pop_front();
  --row_;
  if (rows_.size() == 1 && rows_[0].cells.empty()) {
    style_.clear();
    style_number_ = 0;
    styles_.assign(1, "");
  }
}

/// All but so many rows above the cursor are final.
void LiveRows::leave_above(std::size_t kept, std::string& finished) {
  while (row_ > 0 && (row_ > kept || rows_.size() > kRowsMax || cells() > kCellsMax))
    leave_front(finished);
}

bool LiveRows::all_empty() const {
  return std::all_of(rows_.begin(), rows_.end(), [](const Row& row) { return row.cells.empty(); });
}

std::size_t LiveRows::cells() const {
  std::size_t count = 0;
  for (const Row& row : rows_) count += row.cells.size();
  return count;
}

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
  overflow_.clear();
  beside_bar_ = false;
  redrawn_ = true;
}

void LiveRows::move_down(int rows) {
  for (int i = 0; i < std::min(rows, static_cast<int>(kRowsMax)); ++i) {
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

std::string LiveRows::text_of(const Row& row, int columns_max) const {
  std::size_t size = std::min(row.cells.size(), static_cast<std::size_t>(std::max(0, columns_max)));
  while (row.redrawn && size > 0 && row.cells[size - 1].style == 0 &&
         is_blank(row.cells[size - 1].text))
    --size;
  // The second half of a wide character that does not fit.
  if (size > 0 && size < row.cells.size() && row.cells[size].text[0] == '\0') --size;
  std::string text;
  std::uint16_t style = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const Cell& cell = row.cells[i];
    if (cell.style != style) {
      if (style != 0) text += "\x1b[0m";
      if (cell.style != 0) text += "\x1b[" + styles_[cell.style] + "m";
      style = cell.style;
    }
    text += cell.text;
  }
  if (style != 0) text += "\x1b[0m";
  return text;
}

void LiveRows::settle(Clock::time_point now, std::string& finished) {
  while (true) {
    const auto at = settles_at();
    if (!at || *at > now) return;
    leave_front(finished);
  }
}

std::optional<LiveRows::Clock::time_point> LiveRows::settles_at() const {
  if (row_ == 0 || (holds_empty_ && all_empty())) return std::nullopt;
  if (rows_.front().visited && cursor_hidden_) return std::nullopt;
  const bool drawn = rows_.front().visited || cursor_hidden_;
  return written_ + (drawn ? std::chrono::milliseconds(kSettleDrawn) : kSettle);
}

void LiveRows::finish(std::string& finished) {
  if (!pending_.starts_with(kEscape)) {
    for (const char c : pending_) put(std::string_view(&c, 1));
  }
  const auto has_text = [this](const Row& row) {
    return !text_of(row, static_cast<int>(kRowColumnsMax)).empty();
  };
  // A shell would write over what is at the cursor and below. Where nothing is above it, that is
  // all there is: a bar that was being drawn when its worker ended.
  const auto below = rows_.begin() + static_cast<std::ptrdiff_t>(row_ + (column_ > 0 ? 1 : 0));
  const bool any = std::any_of(rows_.begin(), below, has_text);
  for (auto row = rows_.begin(); row != (any ? below : rows_.end()); ++row) {
    if (!has_text(*row)) continue;
    finished += text_of(*row, static_cast<int>(kRowColumnsMax));
    finished += '\n';
  }
  if (!overflow_.empty() && beside_bar_) finished += overflow_ + "\n";
  const int columns = columns_;
  const bool holds = holds_empty_;
  *this = LiveRows();
  columns_ = columns;
  holds_empty_ = holds;
}

std::vector<std::string> LiveRows::shown(int columns_max) const {
  std::vector<std::string> rows;
  for (const Row& row : rows_) {
    std::string text = text_of(row, columns_max);
    if (!text.empty()) rows.push_back(std::move(text));
  }
  return rows;
}

}  // namespace ddprun::agent
