#include "rendezvous/daemon/line_queue.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "base/printable.hpp"

namespace ddprun::rdzv {

Result<std::unique_ptr<LineQueue>> LineQueue::make() {
  UniqueFd wakeup(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wakeup) return last_system_error();
  return std::unique_ptr<LineQueue>(new LineQueue(std::move(wakeup)));
}

void LineQueue::push(std::string line) {
  line = printable(line);
  if (line.size() > kLineBytesMax) line = line.substr(0, kLineBytesMax) + "...";
  line.push_back('\n');
  {
    const std::lock_guard lock(mutex_);
    if (lines_.size() >= kLinesMax) {
      ++dropped_;
      return;
    }
    lines_.push_back(std::move(line));
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wakeup_.get(), &one, sizeof one);
}

bool LineQueue::next(std::string& line) {
  const std::lock_guard lock(mutex_);
  if (!lines_.empty()) {
    line = std::move(lines_.front());
    lines_.pop_front();
    return true;
  }
  if (dropped_ == 0) return false;
  line = fmt::format("rdzvd: dropped {} lines that were not read\n", std::exchange(dropped_, 0));
  return true;
}

bool LineQueue::flush(int fd) {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto read = ::read(wakeup_.get(), &count, sizeof count);
  while (!current_.empty() || next(current_)) {
    pollfd ready{fd, POLLOUT, 0};
    if (poll(&ready, 1, 0) == 0) return false;
    const ssize_t written = ::write(fd, current_.data(), current_.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) return false;
      current_.clear();  // the reader has gone for good
    } else {
      current_.erase(0, static_cast<std::size_t>(written));
    }
  }
  return true;
}

}  // namespace ddprun::rdzv
