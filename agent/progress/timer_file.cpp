#include "agent/progress/timer_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "base/result.hpp"
#include "base/unique_handle.hpp"
#include "proto/environment_names.hpp"

namespace ddprun::agent {

namespace asio = boost::asio;

namespace {

FileTimers::Time wall_clock() { return std::chrono::system_clock::now(); }

}  // namespace

TimerFile::TimerFile(asio::io_context& context, std::string path, Expired expired)
    : path_(std::move(path)), expired_(std::move(expired)), pipe_(context), timer_(context) {
  const std::string problem = make();
  if (problem.empty()) {
    wait();
    return;
  }
  spdlog::warn("{}={}: {}; timers of workers are not watched", proto::env::kTimerFile, path_,
               problem);
}

/// Empty, or what is wrong.
std::string TimerFile::make() {
  struct stat status {};
  if (lstat(path_.c_str(), &status) == 0) {
    if (!S_ISFIFO(status.st_mode)) return "it exists and is no named pipe";
    // Without a reader it is one that an earlier job has left, and cannot be opened (ENXIO).
    const UniqueFd reader(open(path_.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    if (reader) {
      return "another process reads this pipe, perhaps another job; give each job its own";
    }
    if (errno != ENXIO && errno != ENOENT) return std::strerror(errno);
    if (unlink(path_.c_str()) != 0 && errno != ENOENT) return std::strerror(errno);
  }
  if (mkfifo(path_.c_str(), 0600) != 0) return std::strerror(errno);
  // For both: as long as we could write, the end of the last worker's writing is no end for us.
  UniqueFd fd(open(path_.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  ErrorCode failed = fd ? ErrorCode() : last_system_error();
  if (!failed) pipe_.assign(fd.get(), failed);
  if (failed) {
    unlink(path_.c_str());
    return failed.message();
  }
  static_cast<void>(fd.release());  // Asio closes it
  return "";
}

void TimerFile::wait() {
  pipe_.async_wait(asio::posix::descriptor_base::wait_read, [this](ErrorCode ec) {
    if (ec) return;
    read();
    arm();
    wait();
  });
}

void TimerFile::read() {
  std::array<char, 65536> buffer;
  const ssize_t count = ::read(pipe_.native_handle(), buffer.data(), buffer.size());
  if (count <= 0) return;
  const std::string_view bytes(buffer.data(), static_cast<std::size_t>(count));
  if (!timers_.feed(bytes, wall_clock()) && !reported_garbage_) {
    reported_garbage_ = true;
    spdlog::warn("{}: skipped a line that is not a timer of torch", proto::env::kTimerFile);
  }
}

void TimerFile::arm() {
  timer_.cancel();
  const auto next = timers_.next();
  if (!next || paused_at_) return;
  timer_.expires_after(*next - wall_clock());
  timer_.async_wait([this](ErrorCode ec) {
    if (ec) return;
    read();  // the scope may have ended in time
    for (const ExpiredTimer& timer : timers_.expired(wall_clock())) expired_(timer);
    arm();
  });
}

void TimerFile::clear() {
  timers_.clear();
  arm();
}

void TimerFile::worker_ended(int pid) {
  timers_.forget(pid);
  arm();
}

void TimerFile::pause() {
  if (!paused_at_) paused_at_ = wall_clock();
  arm();
}

void TimerFile::resume() {
  if (!paused_at_) return;
  timers_.postpone(wall_clock() - *paused_at_);
  paused_at_.reset();
  arm();
}

void TimerFile::remove() {
  if (pipe_.is_open()) unlink(path_.c_str());
}

}  // namespace ddprun::agent
