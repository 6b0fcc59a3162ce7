#include "launcher/ssh/output_thread.hpp"

#include <utility>

#include "base/start_thread.hpp"

namespace ddprun::launcher {
namespace {

/// A wait for the reader ends now and then, so that the thread can be joined.
constexpr std::chrono::milliseconds kTurn{100};

}  // namespace

OutputThread::OutputThread(int fd, std::function<void()> has_room)
    : output_(fd), has_room_(std::move(has_room)) {}

ErrorCode OutputThread::start() {
  auto thread = start_thread("output", [this] { run(); });
  if (!thread) return thread.error();
  thread_ = std::move(*thread);
  return {};
}

OutputThread::~OutputThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void OutputThread::add(std::string_view lines) {
  if (lines.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    waiting_ += lines;
    was_full_ = was_full_ || waiting_.size() + writing_bytes_ >= kFullBytes;
  }
  changed_.notify_all();
}

bool OutputThread::is_full() const {
  const std::lock_guard lock(mutex_);
  return was_full_;
}

void OutputThread::drain(std::chrono::milliseconds patience,
                         const std::function<bool()>& interrupted) {
  std::unique_lock lock(mutex_);
  const auto bytes = [this] { return waiting_.size() + writing_bytes_; };
  auto moved_at = std::chrono::steady_clock::now();
  for (std::size_t before = bytes(); before > 0 && !interrupted(); before = bytes()) {
    changed_.wait_for(lock, kTurn, [&] { return bytes() == 0; });
    const auto now = std::chrono::steady_clock::now();
    if (bytes() != before) moved_at = now;
    if (now - moved_at >= patience) return;
  }
}

void OutputThread::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    const std::string bytes = std::exchange(waiting_, "");
    std::string_view left = bytes;
    while (!left.empty() && !stopping_) {
      writing_bytes_ = left.size();
      lock.unlock();
      const ByteOutput::Taken taken = output_.take(left);
      left.remove_prefix(taken.written + taken.lost + taken.unwanted);
      if (!left.empty()) output_.wait_until(std::chrono::steady_clock::now() + kTurn);
      lock.lock();
    }
    writing_bytes_ = 0;
    const bool has_room = was_full_ && waiting_.size() < kFullBytes / 2;
    if (has_room) was_full_ = false;
    changed_.notify_all();
    if (!has_room || !has_room_) continue;
    lock.unlock();
    has_room_();
    lock.lock();
  }
}

}  // namespace ddprun::launcher
