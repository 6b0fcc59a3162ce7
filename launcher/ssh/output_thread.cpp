#include "launcher/ssh/output_thread.hpp"

#include <utility>

#include "base/start_thread.hpp"

namespace ddprun::launcher {

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

bool OutputThread::drain(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return waiting_.empty() && writing_bytes_ == 0; });
}

void OutputThread::run() {
  // A wait for the reader ends now and then, so that the thread can be joined.
  constexpr std::chrono::milliseconds kWait{100};
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
      if (!left.empty()) output_.wait_until(std::chrono::steady_clock::now() + kWait);
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
