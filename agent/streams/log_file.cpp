#include "agent/streams/log_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "base/open_file.hpp"

namespace ddprun::agent {

Result<std::shared_ptr<LogFile>> LogFile::open(const std::string& path, RotationSettings rotation) {
  auto fd = open_log_file(path);
  if (!fd) return fd.error();
  std::uint64_t size = 0;
  struct stat status {};
  if (rotation.bytes_max > 0 && fstat(fd->get(), &status) == 0)
    size = static_cast<std::uint64_t>(status.st_size);
  return std::shared_ptr<LogFile>(new LogFile(path, rotation, std::move(*fd), size));
}

ByteOutput::Taken LogFile::take(std::string_view bytes) {
  Taken taken;
  while (!bytes.empty()) {
    std::size_t part = bytes.size();
    if (rotation_.bytes_max > 0) {
      part = fitting(bytes);
      if (part == 0) {
        rotate();
        continue;
      }
    }
    const std::size_t written = write(bytes.substr(0, part));
    taken.written += written;
    size_ += written;
    if (written > 0) line_start_ = bytes[written - 1] == '\n';
    if (written < part) {
      taken.lost = bytes.size() - written;
      return taken;
    }
    bytes.remove_prefix(part);
  }
  return taken;
}

std::size_t LogFile::fitting(std::string_view bytes) const {
  const std::uint64_t cap = rotation_.bytes_max + grace_;
  const std::uint64_t room = cap > size_ ? cap - size_ : 0;
  if (bytes.size() <= room) return bytes.size();
  const std::size_t newline =
      room == 0 ? std::string_view::npos : bytes.rfind('\n', static_cast<std::size_t>(room) - 1);
  if (newline != std::string_view::npos) return newline + 1;
  if (line_start_ && size_ > 0) return 0;
  // In the middle of a line, or one that is longer than a whole part: its end stays with it.
  const std::size_t end = bytes.find('\n');
  if (end != std::string_view::npos) return end + 1;
  return size_ >= cap + kRotationOverrunMax ? 0 : bytes.size();
}

/// Where no new part can be made the present one goes on: rather a file that is too long than a
/// lost line.
void LogFile::rotate() {
  const auto part = [&](int number) { return path_ + "." + std::to_string(number); };
  for (int number = rotation_.keep; number > 1; --number)
    std::rename(part(number - 1).c_str(), part(number).c_str());
  const int moved =
      rotation_.keep == 0 ? ::unlink(path_.c_str()) : std::rename(path_.c_str(), part(1).c_str());
  int failed = moved == 0 || errno == ENOENT ? 0 : errno;  // ENOENT: it was moved away
  if (failed == 0) {
    auto fresh = open_log_file(path_);
    if (fresh) {
      fd_ = std::move(*fresh);
      size_ = 0;
      grace_ = 0;
      line_start_ = true;
      return;
    }
    failed = fresh.error().value();
    if (rotation_.keep > 0) std::rename(part(1).c_str(), path_.c_str());
  }
  if (!said_) spdlog::warn("{}: cannot start a new part: {}", path_, std::strerror(failed));
  said_ = true;
  grace_ = size_;
}

std::size_t LogFile::write(std::string_view bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::write(fd_.get(), bytes.data() + done, bytes.size() - done);
    if (n > 0) {
      done += static_cast<std::size_t>(n);
    } else if (n == 0 || errno != EINTR) {
      if (!said_) {
        spdlog::warn("{}: {}: unwritten output is dropped and counted", path_,
                     std::strerror(n == 0 ? ENOSPC : errno));
      }
      said_ = true;
      return done;
    }
  }
  return done;
}

namespace {

constexpr off_t kTailBytes = 64 * 1024;

bool make_folder(const std::string& path) {
  return mkdir(path.c_str(), 0755) == 0 || errno == EEXIST;
}

}  // namespace

std::string attempt_folder(const std::string& folder, int restart_count) {
  return fmt::format("{}/attempt_{}", folder, restart_count);
}

std::string worker_folder(const std::string& folder, int restart_count, int local_rank) {
  return fmt::format("{}/attempt_{}/{}", folder, restart_count, local_rank);
}

std::string stream_file(const std::string& folder, int restart_count, int local_rank,
                        bool standard_error) {
  return worker_folder(folder, restart_count, local_rank) +
         (standard_error ? "/stderr.log" : "/stdout.log");
}

Result<void> make_worker_folder(const std::string& folder, int restart_count, int local_rank) {
  if (!make_folder(attempt_folder(folder, restart_count)) ||
      !make_folder(worker_folder(folder, restart_count, local_rank)))
    return last_system_error();
  return {};
}

Result<UniqueFd> open_log_file(const std::string& path) {
  return open_own_file(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
}

std::vector<std::string> last_lines_of(const std::string& path, std::size_t lines_max,
                                       std::size_t line_bytes_max) {
  const Result<UniqueFd> file = open_own_file(path, O_RDONLY);
  struct stat status {};
  if (!file || fstat(file->get(), &status) != 0) return {};
  const off_t begin = std::max<off_t>(0, status.st_size - kTailBytes);
  std::string tail(static_cast<std::size_t>(status.st_size - begin), '\0');
  const ssize_t count = pread(file->get(), tail.data(), tail.size(), begin);
  tail.resize(count > 0 ? static_cast<std::size_t>(count) : 0);

  std::vector<std::string> lines;
  std::string_view rest = tail;
  while (!rest.empty() && lines.size() < lines_max) {
    if (rest.ends_with('\n')) rest.remove_suffix(1);
    const auto before = rest.rfind('\n');
    const bool first = before == std::string_view::npos;
    if (first && begin > 0 && !lines.empty()) break;  // its beginning is further up
    std::string_view line = first ? rest : rest.substr(before + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line.substr(0, line_bytes_max));
    rest = first ? std::string_view() : rest.substr(0, before + 1);
  }
  std::reverse(lines.begin(), lines.end());
  return lines;
}

}  // namespace ddprun::agent
