#include "launcher/ctl/top_screen.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "agent/terminal/terminal_text.hpp"
#include "base/describe.hpp"
#include "base/printable.hpp"

namespace ddprun::ctl {
namespace {

constexpr int kLineColumnsMin = 10;   // of a worker's last line
constexpr int kLooseColumnsMin = 80;  // two blanks between columns
constexpr int kWideColumnsMin = 120;
constexpr std::size_t kHeaderLinesMax = 4;
constexpr std::size_t kRowsForNodes = 12;  // fewer are for the workers
constexpr std::size_t kSparkColumns = 9;
constexpr std::size_t kWideSparkColumns = 20;

/// Without the characters that the terminal may not have.
std::string in_ascii(std::string_view text) {
  std::string ascii;
  while (!text.empty()) {
    const std::size_t bytes = std::max<std::size_t>(1, utf8_character_bytes(text));
    const auto first = static_cast<unsigned char>(text.front());
    ascii += bytes == 1 && first < 0x80 ? text.front() : '?';
    text.remove_prefix(bytes);
  }
  return ascii;
}

/// UTF-8 alone.
std::string mended(std::string_view text) {
  std::string whole;
  while (!text.empty()) {
    const std::size_t bytes = utf8_character_bytes(text);
    whole += bytes == 0 ? "?" : std::string(text.substr(0, bytes));
    text.remove_prefix(std::max<std::size_t>(1, bytes));
  }
  return whole;
}

std::string fitting(const std::string& text, int columns, bool utf8) {
  return agent::cut_to_columns(utf8 ? mended(text) : in_ascii(text), std::max(columns, 0));
}

/// "912K", "1.2G".
std::string short_bytes(std::uint64_t bytes) {
  constexpr std::array<char, 5> kUnits{'B', 'K', 'M', 'G', 'T'};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{:.{}f}{}", value, value < 9.95 && unit > 0 ? 1 : 0, kUnits[unit]);
}

std::string rate(double step_seconds) {
  const double steps = step_seconds > 0 ? 1 / step_seconds : 0;
  const int digits = steps < 9.995 ? 2 : (steps < 99.95 ? 1 : 0);
  return fmt::format("{:.{}f}", steps, digits);
}

template <class Value, class Format>
std::string if_known(const std::optional<Value>& value, Format format) {
  return value ? format(*value) : std::string();
}

std::string percent(const std::optional<double>& value) {
  return if_known(value, [](double known) { return fmt::format("{:.0f}%", known); });
}

/// The median of all workers, so that their lines can be compared.
double usual_step(const std::vector<TopRow>& rows) {
  std::vector<double> all;
  for (const TopRow& row : rows)
    all.insert(all.end(), row.step_history.begin(), row.step_history.end());
  if (all.empty()) return 0;
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

/// A column of the table. The first ones in the list are the last ones to be left out.
struct Column {
  std::string_view title;
  bool is_number = true;
  std::function<std::string(const TopRow&)> text;
};

std::vector<Column> columns_of(const std::vector<TopRow>& rows, const ScreenSize& size) {
  const std::size_t spark = size.columns < kWideColumnsMin ? kSparkColumns : kWideSparkColumns;
  const double usual = usual_step(rows);
  return {
      {"RANK", true, [](const TopRow& row) { return std::to_string(row.rank); }},
      {"STATE", false, [](const TopRow& row) { return row.state; }},
      {"STEP", true,
       [](const TopRow& row) {
         return if_known(row.step, [](std::int64_t step) { return std::to_string(step); });
       }},
      {"STEP/S", true, [](const TopRow& row) { return if_known(row.step_seconds, rate); }},
      {"AGE", true, [](const TopRow& row) { return if_known(row.age_seconds, short_time); }},
      {"STEP TIME", false,
       [=, utf8 = size.utf8](const TopRow& row) {
         return sparkline(row.step_history, usual, spark, utf8);
       }},
      {"GPU", true, [](const TopRow& row) { return percent(row.devices.percent); }},
      {"PHASE", false, [](const TopRow& row) { return row.phase; }},
      {"CPU", true, [](const TopRow& row) { return percent(row.cpu_percent); }},
      {"GPU MEM", true,
       [](const TopRow& row) { return if_known(row.devices.used_bytes, short_bytes); }},
      {"MEM", true, [](const TopRow& row) { return if_known(row.memory_bytes, short_bytes); }},
  };
}

/// The order on the screen is that of the list.
struct ChosenColumn {
  Column column;
  int width = 0;
};

std::vector<ChosenColumn> choose_columns(const std::vector<TopRow>& rows, const ScreenSize& size,
                                         int gap, int& left) {
  std::vector<ChosenColumn> chosen;
  bool fits = true;
  for (Column& column : columns_of(rows, size)) {
    int width = 0;
    for (const TopRow& row : rows)
      width = std::max(width, agent::text_columns(fitting(column.text(row), 24, size.utf8)));
    if (width == 0) continue;  // no worker has any
    width = std::max(width, static_cast<int>(column.title.size()));
    const int taken = width + (chosen.empty() ? 0 : gap);
    fits = fits && (taken <= left || chosen.empty());
    if (!fits) break;
    left -= taken;
    chosen.push_back({std::move(column), width});
  }
  return chosen;
}

std::string cell(const std::string& text, const ChosenColumn& column, bool utf8) {
  const std::string cut = fitting(text, column.width, utf8);
  const auto blanks =
      static_cast<std::size_t>(std::max(0, column.width - agent::text_columns(cut)));
  return column.column.is_number ? std::string(blanks, ' ') + cut : cut + std::string(blanks, ' ');
}

/// The parts one after the other, in as many lines as they need, but at most `lines_max`.
std::vector<std::string> wrapped(const std::vector<std::string>& parts, const ScreenSize& size,
                                 std::size_t lines_max) {
  std::vector<std::string> lines;
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    const std::string text = fitting(part, size.columns, size.utf8);
    const bool fits =
        !lines.empty() &&
        agent::text_columns(lines.back()) + 2 + agent::text_columns(text) <= size.columns;
    if (fits) {
      lines.back() += "  " + text;
    } else if (lines.size() < lines_max) {
      lines.push_back(text);
    } else {
      break;
    }
  }
  return lines;
}

std::string steps_of(const std::vector<TopRow>& rows) {
  std::optional<std::int64_t> low;
  std::int64_t high = 0;
  for (const TopRow& row : rows) {
    if (!row.step) continue;
    low = std::min(low.value_or(*row.step), *row.step);
    high = std::max(high, *row.step);
  }
  if (!low) return "";
  return *low == high ? fmt::format("step {}", high) : fmt::format("steps {} to {}", *low, high);
}

std::vector<std::string> header_parts(const TopView& view, const TopChoice& choice) {
  if (view.nodes.empty()) return {"no answer yet"};
  std::vector<std::string> parts{
      fmt::format("{}: {}", view.job, view.state),
      view.round ? fmt::format("round {}", *view.round) : "no round has begun",
      fmt::format("{} of {} restarts", view.restart_count, view.max_restarts),
      steps_of(view.rows),
      short_time(view.age_seconds) + " old",
  };
  if (view.nodes.size() == 1 && view.nodes_in_round > 1)
    parts.push_back(fmt::format("node {} of {} ({})", view.nodes.front().group_rank,
                                view.nodes_in_round, view.nodes.front().name));
  if (view.nodes.size() > 1) parts.push_back(fmt::format("{} nodes", view.nodes_in_round));
  parts.push_back(fmt::format("{} workers", view.world_size));
  if (choice.order == TopOrder::rank) parts.emplace_back("by rank");
  if (!choice.help) parts.emplace_back("h: keys");
  return parts;
}

std::string node_line(const TopNode& node) {
  std::string text =
      fmt::format("node {} {}: {} workers", node.group_rank, node.name, node.workers);
  if (node.failed > 0) text += fmt::format(", {} failed", node.failed);
  if (node.step) text += fmt::format("  step {}", *node.step);
  if (node.step_seconds) text += fmt::format("  {} step/s", rate(*node.step_seconds));
  if (node.cpu_percent) text += "  CPU " + percent(node.cpu_percent);
  if (node.memory_bytes) text += "  MEM " + short_bytes(*node.memory_bytes);
  return text;
}

/// Cuts every line that it gets.
class Picture {
 public:
  explicit Picture(const ScreenSize& size) : size_(size) {}
  void add(const std::string& text, Paint paint) {
    lines_.push_back({fitting(text, size_.columns, size_.utf8), paint});
  }
  [[nodiscard]] std::size_t rows_left() const {
    const auto rows = static_cast<std::size_t>(std::max(size_.rows, 0));
    return rows - std::min(rows, lines_.size());
  }
  std::vector<TopLine> take() { return std::move(lines_); }

 private:
  const ScreenSize& size_;
  std::vector<TopLine> lines_;
};

void add_nodes(Picture& picture, std::vector<TopNode> nodes, std::size_t lines_max) {
  if (nodes.size() < 2) return;
  std::stable_sort(nodes.begin(), nodes.end(), [](const TopNode& one, const TopNode& other) {
    return std::pair(!one.step, one.step.value_or(0)) <
           std::pair(!other.step, other.step.value_or(0));
  });
  const std::size_t shown =
      nodes.size() <= lines_max ? nodes.size() : std::max<std::size_t>(lines_max, 2) - 1;
  for (std::size_t i = 0; i < shown; ++i)
    picture.add(node_line(nodes[i]), nodes[i].failed > 0 ? Paint::failed : Paint::plain);
  if (shown < nodes.size())
    picture.add(fmt::format("{} more nodes", nodes.size() - shown), Paint::quiet);
}

std::string more_text(std::size_t above, std::size_t below) {
  std::string text = above > 0 ? fmt::format("{} above", above) : "";
  if (below > 0) text += fmt::format("{}{} more", text.empty() ? "" : ", ", below);
  return text + " (j, k)";
}

}  // namespace

std::string short_time(double seconds) {
  if (seconds < 0.0995) return fmt::format("{:.0f}ms", std::max(0.0, seconds) * 1000);
  if (seconds < 9.95) return fmt::format("{:.1f}s", seconds);
  if (seconds < 99.5) return fmt::format("{:.0f}s", seconds);
  constexpr double kMinute = 60;
  constexpr double kHour = 60 * kMinute;
  constexpr double kDay = 24 * kHour;
  const auto whole = [seconds](double unit) {
    return static_cast<std::int64_t>(std::min(seconds, 1e12) / unit);
  };
  if (seconds < 100 * kMinute) return fmt::format("{}m", whole(kMinute));
  if (seconds < 2 * kDay) return fmt::format("{}h", whole(kHour));
  return fmt::format("{}d", whole(kDay));
}

std::string sparkline(const std::vector<double>& values, double usual, std::size_t columns,
                      bool utf8) {
  constexpr std::array<const char*, 8> kBlocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::array<const char*, 8> kAscii{"_", ".", "-", "~", "=", "+", "*", "#"};
  constexpr double kUsualHeight = 4;
  std::string text;
  for (std::size_t i = values.size() - std::min(values.size(), columns); i < values.size(); ++i) {
    const double height = usual > 0 ? values[i] / usual * kUsualHeight : kUsualHeight;
    const auto level = static_cast<std::size_t>(std::clamp(height + 0.5, 1.0, 8.0)) - 1;
    text += (utf8 ? kBlocks : kAscii)[level];
  }
  return text;
}

TopPicture top_picture(const TopView& view, const ScreenSize& size, const TopChoice& choice) {
  constexpr const char* kKeys = "q leave  j k scroll  s order  h keys";
  const auto rows_of_screen = static_cast<std::size_t>(std::max(size.rows, 0));
  Picture picture(size);
  const std::size_t third = std::max<std::size_t>(rows_of_screen / 3, 1);
  std::size_t header_max = std::min<std::size_t>(third, kHeaderLinesMax);
  if (view.silent_seconds && picture.rows_left() > 0) {
    picture.add("no answer for " + short_time(*view.silent_seconds), Paint::warning);
    header_max = std::max<std::size_t>(header_max - 1, 1);
  }
  for (const std::string& line : wrapped(header_parts(view, choice), size, header_max))
    if (picture.rows_left() > 0) picture.add(line, Paint::title);
  if (rows_of_screen >= kRowsForNodes) add_nodes(picture, view.nodes, third);
  const std::size_t help_lines = choice.help && picture.rows_left() > 0 ? 1 : 0;

  const int gap = size.columns < kLooseColumnsMin ? 1 : 2;
  int left = size.columns;
  const auto columns = choose_columns(view.rows, size, gap, left);
  const bool has_lines = std::any_of(view.rows.begin(), view.rows.end(),
                                     [](const TopRow& row) { return !row.last_line.empty(); });
  const bool shows_lines = has_lines && left >= kLineColumnsMin + gap;
  const std::string between(static_cast<std::size_t>(gap), ' ');
  if (!view.rows.empty() && picture.rows_left() > help_lines + 1) {
    std::string heading;
    for (const ChosenColumn& one : columns)
      heading +=
          (heading.empty() ? "" : between) + cell(std::string(one.column.title), one, size.utf8);
    if (shows_lines) heading += between + "LAST LINE";
    picture.add(heading, Paint::heading);
  }

  const std::size_t count = view.rows.size();
  std::size_t room = picture.rows_left() - std::min(picture.rows_left(), help_lines);
  const bool has_more = count > room && room > 1;
  if (has_more) --room;
  TopPicture result;
  result.rows = std::min(room, count);
  result.first_row = std::min(choice.first_row, count - result.rows);
  for (std::size_t i = result.first_row; i < result.first_row + result.rows; ++i) {
    const TopRow& row = view.rows[i];
    std::string text;
    for (const ChosenColumn& one : columns)
      text += (text.empty() ? "" : between) + cell(one.column.text(row), one, size.utf8);
    if (shows_lines) text += between + row.last_line;
    picture.add(text, row.has_failed ? Paint::failed : Paint::plain);
  }
  if (has_more)
    picture.add(more_text(result.first_row, count - result.first_row - result.rows), Paint::quiet);
  if (help_lines > 0) picture.add(kKeys, Paint::quiet);
  result.lines = picture.take();
  return result;
}

}  // namespace ddprun::ctl
