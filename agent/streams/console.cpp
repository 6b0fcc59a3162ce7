#include "agent/streams/console.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>

#include "agent/streams/line_prefix.hpp"
#include "agent/terminal/terminal_text.hpp"

namespace ddprun::agent {

void StatusArea::draw(const std::vector<std::string>& rows, int columns, LogBuffer& out) {
  if (rows.size() != drawn_.size()) erase(out);
  std::size_t first = 0;
  while (first < drawn_.size() && drawn_[first] == rows[first]) ++first;
  if (first == rows.size()) return;
  if (!drawn_.empty()) go_to(first, out);
  const bool wrapped =
      std::any_of(heights_.begin(), heights_.end(), [](int height) { return height > 1; });
  if (wrapped) out.append("\x1b[J");
  for (std::size_t i = first; i < rows.size(); ++i) {
    if (i > first) out.append("\r\n");
    out.append(rows[i]);
    // Behind the last column it would erase the character there.
    if (text_columns(rows[i]) < columns) out.append("\x1b[K");
  }
  // Behind a full row what the user types (^C, ^Z) would wrap.
  out.append("\r");
  drawn_ = rows;
  heights_.assign(rows.size(), 1);
}

void StatusArea::erase(LogBuffer& out) {
  if (drawn_.empty()) return;
  go_to(0, out);
  out.append("\x1b[J");
  drawn_.clear();
}

void StatusArea::resize(int columns) {
  for (std::size_t i = 0; i < drawn_.size(); ++i)
    heights_[i] = std::max(1, (text_columns(drawn_[i]) + columns - 1) / columns);
}

void StatusArea::go_to(std::size_t first, LogBuffer& out) const {
  int up = 0;
  for (std::size_t i = first; i + 1 < drawn_.size(); ++i) up += heights_[i];
  out.append("\r");
  if (up > 0) out.append("\x1b[" + std::to_string(up) + "A");
}

namespace {

/// `[rank3]`; empty: the line begins otherwise.
std::string_view own_rank(std::string_view line) {
  constexpr std::string_view kBegin = "[rank";
  if (!line.starts_with(kBegin)) return {};
  const auto end = line.find_first_not_of("0123456789", kBegin.size());
  const bool number = end != std::string_view::npos && end > kBegin.size();
  return number && line.substr(end).starts_with("]:") ? line.substr(0, end + 1)
                                                      : std::string_view();
}

}  // namespace

std::string_view without_own_rank(std::string_view prefix, std::string_view line) {
  const std::string_view rank = own_rank(line);
  if (rank.empty() || prefix.find(rank) == std::string_view::npos) return line;
  line.remove_prefix(rank.size() + 1);
  if (line.starts_with(' ')) line.remove_prefix(1);
  return line;
}

void Console::end_line(LogBuffer& out) {
  if (unfinished_by_ != kNobody) out.push_back('\n');
  unfinished_by_ = kNobody;
  if (area_.empty()) return;
  area_.erase(out);
  changed_ = true;
}

void Console::add(int source, std::string_view prefix, std::string_view text, LineEnding ending,
                  LogBuffer& out) {
  std::string clean;
  if (unfinished_by_ != source) {
    if (text.empty() && ending == LineEnding::none) return;
    if (ending == LineEnding::newline && repeats_state(source, text)) return;
    end_line(out);
    out.append(prefix);
    text = without_own_rank(prefix, text);
    // A prompt passes as it is: line editors move the cursor.
    if (settings_.terminal && ending == LineEnding::newline) clean = without_controls(text);
    if (!clean.empty()) text = clean;
  }
  out.append(text);
  unfinished_by_ = ending == LineEnding::none ? source : kNobody;
  if (ending == LineEnding::newline) {
    out.push_back('\n');
    rows_written_ += draws() ? rows_of(text_columns(prefix) + text_columns(text)) : 1;
  }
}

void Console::add_folded(LineFold& fold, bool coloured, Clock::time_point now, LogBuffer& out) {
  while (const auto line = fold.next(now))
    add(kSeveral, ranks_prefix(line->ranks, coloured), line->text, LineEnding::newline, out);
}

bool Console::repeats_state(int source, std::string_view text) {
  const auto known = live_.find(source);
  if (known == live_.end()) return false;
  Live& live = known->second;
  live.printed = true;
  const bool same = live.written.size() == 1 && live.written[0] == text;
  live.written.clear();
  return same;
}

void Console::add_lines(int source, std::string_view prefix, std::string_view block,
                        LogBuffer& out) {
  const auto add_first = [&] {
    const std::size_t end = block.find('\n');
    add(source, prefix, block.substr(0, end), LineEnding::newline, out);
    block.remove_prefix(end + 1);
  };
  if (unfinished() || !live_.empty()) add_first();
  if (settings_.terminal) {  // a slow reader anyway
    while (!block.empty()) add_first();
  }
  if (prefix.empty()) {
    rows_written_ += static_cast<std::uint64_t>(std::count(block.begin(), block.end(), '\n'));
    out.append(block);
    return;
  }
  while (!block.empty()) {
    const std::size_t end = block.find('\n') + 1;
    const std::string_view line = block.front() == '['
                                      ? without_own_rank(prefix, block.substr(0, end))
                                      : block.substr(0, end);
    char* to = out.room(prefix.size() + line.size());
    std::memcpy(to, prefix.data(), prefix.size());
    std::memcpy(to + prefix.size(), line.data(), line.size());
    out.grow(prefix.size() + line.size());
    block.remove_prefix(end);
    ++rows_written_;
  }
}

void Console::pass(int source, std::string_view bytes, LogBuffer& out) {
  if (bytes.empty()) return;
  passes_ = true;
  if (unfinished_by_ != source) end_line(out);
  out.append(bytes);
  unfinished_by_ = bytes.back() == '\n' ? kNobody : source;
}

int Console::room(std::string_view prefix) const {
  if (!draws()) return std::numeric_limits<int>::max();
  return std::max(0, settings_.columns - text_columns(prefix));
}

void Console::show(int source, std::string_view prefix, std::vector<std::string> rows,
                   Clock::time_point now) {
  const auto known = live_.find(source);
  if (rows.empty() && (known == live_.end() || known->second.rows.empty())) return;
  Live& live = known != live_.end() ? known->second : live_[source];
  live.lacks_rows = false;
  if (!take_rows(live, std::move(rows), now)) return;
  live.prefix = prefix;
  changed_ = true;
  if (live.rows.empty() && draws()) live_.erase(source);
}

bool Console::wants_rows(int source, Clock::time_point now) const {
  const auto known = live_.find(source);
  if (known == live_.end() || known->second.rows.empty()) return true;
  if (draws()) return may_draw(now);
  return settings_.bar_interval.count() > 0 &&
         now >= known->second.written_at + settings_.bar_interval;
}

void Console::change(int source, Clock::time_point now) {
  Live& live = live_[source];
  if (live.printed) live.written_at = now;
  live.printed = false;
  live.changed = live.lacks_rows = changed_ = true;
}

bool Console::take_rows(Live& live, std::vector<std::string> rows, Clock::time_point now) const {
  // The time of a bar that soon follows another one goes on: short bars must show up, too.
  const bool begins = live.rows.empty() && !rows.empty();
  const bool follows = live.ended_at && now < *live.ended_at + settings_.bar_interval;
  if ((begins && !follows) || live.printed) live.written_at = now;
  live.printed = false;
  if (live.rows == rows) return false;
  if (rows.empty()) live.ended_at = now;
  live.changed = !rows.empty();
  live.rows = std::move(rows);
  return true;
}

void Console::draw(Clock::time_point now, LogBuffer& out) {
  if (!draws()) return write_states(now, out);
  // A prompt has the cursor, which the user's own typing moves.
  if (!changed_ || unfinished_by_ != kNobody) return;
  if (!may_draw(now)) return;
  draw_area(out);
  drawn_at_ = now;
  changed_ = false;
}

void Console::draw_area(LogBuffer& out) {
  std::vector<std::string> rows;
  for (const auto& [source, live] : live_) {
    for (const std::string& row : live.rows) rows.push_back(live.prefix + row);
  }
  const auto rows_max = static_cast<std::size_t>(settings_.rows / 2);
  if (rows.size() > rows_max) {
    const std::size_t more = rows.size() - rows_max + 1;
    rows.resize(rows_max);
    rows.back() =
        cut_to_columns("... and " + std::to_string(more) + " more rows", settings_.columns);
  }
  area_.draw(rows, settings_.columns, out);
}

/// Where nothing can be drawn, a bar's state is a line from time to time, so that a file or a pipe
/// shows that the job lives.
void Console::write_states(Clock::time_point now, LogBuffer& out) {
  if (settings_.bar_interval.count() == 0) return;
  for (auto& [source, live] : live_) {
    if (!live.changed || now < live.written_at + settings_.bar_interval) continue;
    const std::vector<std::string> written = std::move(live.written);
    live.written.clear();
    for (std::size_t i = 0; i < live.rows.size(); ++i) {
      const bool same = i < written.size() && written[i] == live.rows[i];
      if (!same) add(source, live.prefix, live.rows[i], LineEnding::newline, out);
    }
    live.written = live.rows;
    live.printed = false;
    live.written_at = now;
    live.changed = false;
  }
}

std::optional<Console::Clock::time_point> Console::due() const {
  if (draws()) {
    if (!changed_ || unfinished_by_ != kNobody) return std::nullopt;
    return std::max(draws_from_, area_.empty() ? drawn_at_ : drawn_at_ + kFrame);
  }
  std::optional<Clock::time_point> first;
  if (settings_.bar_interval.count() == 0) return first;
  for (const auto& [source, live] : live_) {
    const auto at = live.written_at + settings_.bar_interval;
    if (live.changed && (!first || at < *first)) first = at;
  }
  return first;
}

void Console::resize(int columns, int rows, Clock::time_point now, LogBuffer& out) {
  if (columns > 0) area_.resize(columns);
  settings_.columns = columns;
  settings_.rows = rows;
  area_.erase(out);
  changed_ = true;
  draws_from_ = now + kResizeRest;
}

void Console::forget_screen() {
  area_.forget();
  unfinished_by_ = kNobody;
  changed_ = true;
}

}  // namespace ddprun::agent
