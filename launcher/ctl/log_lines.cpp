#include "launcher/ctl/log_lines.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "agent/terminal/terminal_text.hpp"

namespace ddprun::ctl {
namespace {

constexpr int kColumnsMax = 4096;  // of what is not finished
constexpr off_t kFileEndBytes = 4096;
constexpr std::string_view kStylesOff = "\x1b[0m";

}  // namespace

/// Where StreamText puts the lines of one stream.
struct LogLines::Sink {
  void lines(std::string_view block) const {
    while (!block.empty()) {
      const std::size_t end = block.find('\n');
      all.show(stream, block.substr(0, end));
      block.remove_prefix(end + 1);
    }
  }
  void line(std::string_view text, agent::LineEnding) const { all.show(stream, text); }
  void redrawn() const {}

  LogLines& all;
  const LogStream& stream;
};

void LogLines::show(const LogStream& stream, std::string_view line) {
  lines_ += fmt::format("[rank{}] ", stream.rank);
  if (for_terminal_) {
    const std::string without = agent::without_controls(line);
    lines_ += without.empty() ? line : std::string_view(without);
    if (line.find(agent::kEscape) != std::string_view::npos) lines_ += kStylesOff;
  } else {
    lines_ += line;
  }
  lines_ += '\n';
}

void LogLines::add(const LogStream& stream, std::string_view bytes, Clock::time_point now) {
  const auto [entry, is_new] = streams_.try_emplace(stream);
  if (is_new) entry->second.shown_at = now;
  entry->second.text.feed(bytes, now, Sink{*this, entry->first});
}

void LogLines::settle(Clock::time_point now) {
  for (auto& [stream, text] : streams_) {
    text.text.settle(now, Sink{*this, stream});
    if (now - text.shown_at < kUnfinishedEvery) continue;
    text.shown_at = now;
    for (const std::string& line : text.text.live(kColumnsMax)) show(stream, line);
  }
}

void LogLines::finish() {
  for (auto& [stream, text] : streams_) text.text.finish(Sink{*this, stream});
  streams_.clear();
}

void LogFiles::add(const LogStream& stream, const std::string& path, LogLines& lines,
                   LogLines::Clock::time_point now) {
  UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return;
  const off_t size = lseek(file.get(), 0, SEEK_END);
  const off_t begin = std::max<off_t>(0, size - kFileEndBytes);
  std::string end(static_cast<std::size_t>(std::max<off_t>(0, size - begin)), '\0');
  const ssize_t count = pread(file.get(), end.data(), end.size(), begin);
  end.resize(static_cast<std::size_t>(std::max<ssize_t>(0, count)));
  lseek(file.get(), begin + static_cast<off_t>(end.size()), SEEK_SET);
  const auto first_end = end.find('\n');
  if (begin > 0 && first_end != std::string::npos) end.erase(0, first_end + 1);
  lines.add(stream, end, now);
  files_[stream] = std::move(file);
}

void LogFiles::read(LogLines& lines, LogLines::Clock::time_point now) {
  static std::array<char, 64 * 1024> buffer;
  for (const auto& [stream, file] : files_) {
    while (true) {
      const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
      if (count <= 0) break;
      lines.add(stream, {buffer.data(), static_cast<std::size_t>(count)}, now);
    }
  }
}

}  // namespace ddprun::ctl
