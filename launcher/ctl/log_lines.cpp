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
  if (is_new) {
    entry->second.shown_at = now;
    finish_before(stream);
  }
  entry->second.text.feed(bytes, now, Sink{*this, entry->first});
}

/// A worker that was replaced prints no more.
void LogLines::finish_before(const LogStream& stream) {
  for (auto next = streams_.begin(); next != streams_.end();) {
    const auto old = next++;
    if (old->first.round >= stream.round || old->first.rank != stream.rank ||
        old->first.name != stream.name)
      continue;
    finish(old->first, old->second);
    streams_.erase(old);
  }
}

void LogLines::settle(Clock::time_point now) {
  for (auto& [stream, text] : streams_) {
    text.text.settle(now, Sink{*this, stream});
    if (now - text.shown_at < kUnfinishedEvery) continue;
    text.shown_at = now;
    auto lines = text.text.live(kColumnsMax);
    if (lines == text.shown) continue;
    for (const std::string& line : lines) show(stream, line);
    text.shown = std::move(lines);
  }
}

void LogLines::finish(const LogStream& stream, Text& text) {
  text.text.finish(Sink{*this, stream});
}

void LogLines::finish() {
  for (auto& [stream, text] : streams_) finish(stream, text);
  streams_.clear();
}

void LogFiles::add(const LogStream& stream, const std::string& path, LogLines& lines,
                   LogLines::Clock::time_point now) {
  for (auto file = files_.begin(); file != files_.end();) {
    const auto old = file++;
    if (old->first.rank != stream.rank || old->first.name != stream.name) continue;
    read(old->first, old->second, lines, now);
    files_.erase(old);
  }
  File& file = files_[stream];
  file.path = path;
  file.fd = UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.fd) return;
  const off_t size = lseek(file.fd.get(), 0, SEEK_END);
  const off_t begin = std::max<off_t>(0, size - kFileEndBytes);
  std::string end(static_cast<std::size_t>(std::max<off_t>(0, size - begin)), '\0');
  const ssize_t count = pread(file.fd.get(), end.data(), end.size(), begin);
  end.resize(static_cast<std::size_t>(std::max<ssize_t>(0, count)));
  lseek(file.fd.get(), begin + static_cast<off_t>(end.size()), SEEK_SET);
  const auto first_end = end.find('\n');
  if (begin > 0 && first_end != std::string::npos) end.erase(0, first_end + 1);
  lines.add(stream, end, now);
}

void LogFiles::read(const LogStream& stream, File& file, LogLines& lines,
                    LogLines::Clock::time_point now) {
  static std::array<char, 64 * 1024> buffer;
  if (!file.fd) file.fd = UniqueFd(open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  while (file.fd) {
    const ssize_t count = ::read(file.fd.get(), buffer.data(), buffer.size());
    if (count <= 0) break;
    lines.add(stream, {buffer.data(), static_cast<std::size_t>(count)}, now);
  }
}

void LogFiles::read(LogLines& lines, LogLines::Clock::time_point now) {
  for (auto& [stream, file] : files_) read(stream, file, lines, now);
}

}  // namespace ddprun::ctl
