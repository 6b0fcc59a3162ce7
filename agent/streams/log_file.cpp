#include "agent/streams/log_file.hpp"

#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "agent/streams/log_files.hpp"

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

}  // namespace ddprun::agent
