#include "agent/terminal/live_rows.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace ddprun::agent {
namespace {

constexpr std::size_t kTabColumns = 8;

bool is_blank(const char* text) { return std::strcmp(text, " ") == 0; }

bool begins_text(std::string_view bytes) {
  if (bytes.starts_with(kEscape)) return read_escape(bytes).kind == EscapeSequence::Kind::style;
  return !bytes.empty() && (bytes[0] == '\t' || static_cast<unsigned char>(bytes[0]) >= 0x20);
}

/// Columns of text of which each character is a letter of ASCII or a block that bars are drawn
/// with; none: there is another one.
std::optional<std::size_t> simple_columns(std::string_view text) {
  signed char low = 0x7e;  // a loop without an exit looks at many characters at once
  signed char high = 0x20;
  for (const char c : text) {
    low = std::min(low, static_cast<signed char>(c));
    high = std::max(high, static_cast<signed char>(c));
  }
  if (low >= 0x20 && high < 0x7f) return text.size();
  std::size_t columns = 0;
  for (std::size_t at = 0; at < text.size(); ++columns) {
    const auto byte = [&](std::size_t i) {
      return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u;
    };
    if (byte(0) >= 0x20 && byte(0) < 0x7f) {
      ++at;
    } else if (byte(0) == 0xe2 && byte(1) >= 0x94 && byte(1) <= 0x96 && (byte(2) & 0xc0) == 0x80) {
      at += 3;  // U+2500 to U+25BF
    } else {
      return std::nullopt;
    }
  }
  return columns;
}

}  // namespace

std::string_view without_hidden_states(std::string_view bytes, std::string& kept) {
  // rfind would look at each byte by itself.
  const auto return_before = [bytes](std::size_t at) {
    const void* found = memrchr(bytes.data(), '\r', at);
    return found == nullptr
               ? std::string_view::npos
               : static_cast<std::size_t>(static_cast<const char*>(found) - bytes.data());
  };
  const auto first = bytes.find('\r');
  auto end = return_before(bytes.size());
  if (first == end || return_before(end) == first) return bytes;  // fewer than three
  // From the back: later pieces hide earlier ones. Each begins with its carriage return.
  std::vector<std::string_view> pieces{bytes.substr(end)};
  std::size_t hidden_columns = 0;
  bool is_last_state = true;
  while (end > first) {
    const auto begin = return_before(end);
    const std::string_view piece = bytes.substr(begin, end - begin);
    end = begin;
    const auto columns = simple_columns(piece.substr(1));
    const bool hides = columns.has_value() && !is_last_state && *columns <= hidden_columns;
    is_last_state = false;
    if (hides) continue;
    hidden_columns = columns.has_value() ? std::max(hidden_columns, *columns) : 0;
    pieces.push_back(piece);
  }
  kept = bytes.substr(0, first);
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) kept += *piece;
  return kept;
}

void LiveRows::set_columns(int columns) {
  columns_ = columns;
  if (columns <= 0) return;
  for (Row& row : rows_) {
    if (!row.redrawn || row.cells.size() <= static_cast<std::size_t>(columns)) continue;
    row.cells.resize(static_cast<std::size_t>(columns));
    row.too_long = true;
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
  const bool at_its_end = row.redrawn && column_ > 0 && column_ == row.cells.size();
  const bool full = column_ == static_cast<std::size_t>(columns_) && !row.too_long;
  if (at_its_end && (full || now - written_ >= kBarRests) && begins_text(bytes)) {
    if (row.too_long) overflow_.clear();  // the end of the bar
    beside_bar_ = true;
  }
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
      if (moved_up_) leave_out_of_reach(finished);
      newline(finished);
    } else if (c == '\r') {
      carriage_return();
    } else if (c == '\b') {
      if (column_ > 0 && column_ == rows_[row_].cells.size()) keep_frame();
      overflow_.clear();
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
      if (moved_up_) leave_out_of_reach(finished);
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

/// What is drawn next may be the same bar, or a line of text.
void LiveRows::keep_frame() {
  Row& row = rows_[row_];
  if (beside_bar_ || row.shown_cells(kRowColumnsMax) == 0) return;
  const bool wide = columns_ > 0 && row.cells.size() > static_cast<std::size_t>(columns_);
  if (wide) row.cells.resize(static_cast<std::size_t>(columns_));
  row.frame = row.cells;
  row.too_long = wide || !overflow_.empty();
}

void LiveRows::carriage_return() {
  if (column_ > 0) keep_frame();
  rows_[row_].redrawn = true;
  step_column(-static_cast<int>(column_));
  overflow_.clear();
  beside_bar_ = false;
}

/// Whether the row is mostly what it was before.
bool LiveRows::like_frame() const {
  const Row& row = rows_[row_];
  std::size_t same = 0;
  for (std::size_t i = 0; i < std::min(row.frame.size(), row.cells.size()); ++i)
    same += std::strcmp(row.frame[i].text, row.cells[i].text) == 0 ? 1 : 0;
  return same >= row.frame.size() / 2;
}

/// A bar that fills the width of the terminal, or all but a column of it, was drawn again much as
/// it was before; what goes beyond is text that was printed behind it. Of other bars that can't be
/// told.
bool LiveRows::text_behind_bar() const {
  const Row& row = rows_[row_];
  const auto width = static_cast<std::size_t>(columns_);
  const std::size_t drawn = row.frame.size();
  // Something may have erased its end since.
  const bool whole = row.cells.size() >= drawn;
  const bool full = columns_ > 0 && drawn <= width && drawn + 1 >= width;
  const bool beyond = column_ > drawn + 1 || !overflow_.empty();
  return whole && full && beyond && !row.too_long && like_frame();
}

/// The bar stays, and the text is a line of its own.
void LiveRows::split_off_text() {
  Row& row = rows_[row_];
  Row text;
  const auto end = row.cells.begin() + static_cast<std::ptrdiff_t>(row.frame.size());
  text.cells.assign(end, row.cells.end());
  row.cells.erase(end, row.cells.end());
  overflow_ = text_of(text, static_cast<int>(kRowColumnsMax)) + overflow_;
  beside_bar_ = true;
}

void LiveRows::newline(std::string& finished) {
  if (!beside_bar_ && text_behind_bar()) split_off_text();
  column_ = 0;
  if (beside_bar_ && !overflow_.empty()) {
    finished += overflow_;
    finished += '\n';
    overflow_.clear();
    return;
  }
  beside_bar_ = false;
  Row& row = rows_[row_];
  // Programs that hide the cursor print no long lines among their rows: those are only too long. So
  // is a bar that was too long before.
  const bool cut = cursor_hidden_ || (row.too_long && like_frame());
  if (!cut) row.tail = std::move(overflow_);
  overflow_.clear();
  const bool may_come_back = row.redrawn && row.shown_cells(1000) > 0;
  row.left_at = written_;
  ++row_;
  if (row_ == rows_.size()) rows_.emplace_back();
  if (holds_empty_ && rows_.size() <= kRowsMax && all_empty()) return;
  // A bar below this one may follow, from which the cursor comes back.
  leave_above(cursor_hidden_ ? kRowsMax : std::max<std::size_t>(depth_, may_come_back ? 1 : 0),
              finished);
}

/// Programs that hide the cursor move up to the first of their rows, and write from there: what is
/// above is final.
void LiveRows::leave_out_of_reach(std::string& finished) {
  moved_up_ = false;
  while (cursor_hidden_ && row_ > 0 && rows_.size() > depth_ + 1) leave_front(finished);
}

/// The front row is final.
void LiveRows::leave_front(std::string& finished) {
  finished += line_of(rows_.front());
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

std::size_t LiveRows::Row::shown_cells(std::size_t columns_max) const {
  std::size_t size = std::min(cells.size(), columns_max);
  while (redrawn && size > 0 && cells[size - 1].style == 0 && is_blank(cells[size - 1].text))
    --size;
  // The second half of a wide character that does not fit.
  if (size > 0 && size < cells.size() && cells[size].text[0] == '\0') --size;
  return size;
}

std::string LiveRows::text_of(const Row& row, int columns_max) const {
  const std::size_t size = row.shown_cells(static_cast<std::size_t>(std::max(0, columns_max)));
  std::string text;
  std::uint16_t style = 0;
  bool after_wide = false;
  for (std::size_t i = 0; i < size; ++i) {
    const Cell& cell = row.cells[i];
    if (cell.style != style) {
      if (style != 0) text += "\x1b[0m";
      if (cell.style != 0) text += "\x1b[" + styles_[cell.style] + "m";
      style = cell.style;
    }
    // Half of a wide character is none.
    const bool wide = cell.text[0] != '\0' && cell.text[1] != '\0' && text_columns(cell.text) == 2;
    const bool whole = i + 1 < size && row.cells[i + 1].text[0] == '\0';
    const bool second_half = cell.text[0] == '\0';
    if ((wide && !whole) || (second_half && !after_wide)) {
      text += ' ';
    } else {
      text += cell.text;
    }
    after_wide = wide && whole;
  }
  if (style != 0) text += "\x1b[0m";
  return text;
}

std::string LiveRows::line_of(const Row& row) const {
  return text_of(row, static_cast<int>(kRowColumnsMax)) + row.tail;
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
  return rows_.front().left_at + (drawn ? std::chrono::milliseconds(kSettleDrawn) : kSettle);
}

void LiveRows::finish(std::string& finished) {
  // The text behind a command that has no end; not a piece of a sequence.
  const bool text = !pending_.starts_with(kEscape) || pending_.starts_with("\x1b]");
  for (const char c : text ? std::string_view(pending_) : std::string_view()) {
    if (c != kEscape) put(std::string_view(&c, 1));
  }
  if (!beside_bar_ && !cursor_hidden_ && !(rows_[row_].too_long && like_frame()))
    rows_[row_].tail = std::move(overflow_);
  const auto has_text = [](const Row& row) { return row.shown_cells(kRowColumnsMax) > 0; };
  // A shell would write over what is at the cursor and below. Where nothing is above it, that is
  // all there is: a bar that was being drawn when its worker ended.
  const auto below = rows_.begin() + static_cast<std::ptrdiff_t>(row_ + (column_ > 0 ? 1 : 0));
  const bool any = std::any_of(rows_.begin(), below, has_text);
  for (auto row = rows_.begin(); row != (any ? below : rows_.end()); ++row) {
    if (!has_text(*row)) continue;
    finished += line_of(*row);
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
