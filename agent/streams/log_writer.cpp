#include "agent/streams/log_writer.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include <fmt/format.h>

namespace ddprun::agent {
namespace {

// Blocks. The descriptor is inherited, so it is never made non-blocking; where somebody else made
// it so, poll waits. Returns how many bytes were not taken: nobody reads any more (EPIPE), or the
// disk is full. The job goes on.
std::size_t write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      pollfd entry{fd, POLLOUT, 0};
      poll(&entry, 1, -1);
    } else if (errno != EINTR) {
      break;
    }
  }
  return bytes.size();
}

}  // namespace

LogWriter::~LogWriter() {
  if (!thread_.joinable()) return;
  bool idle = false;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
    idle = state_->queue.empty() && !state_->busy;
  }
  state_->wake.notify_one();
  // A thread stuck in a write to a reader that has stopped must not keep us from exiting.
  if (idle) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

bool LogWriter::write(const LogTarget& target, std::string bytes) {
  if (!thread_.joinable()) thread_ = std::thread(run, state_);
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->queued_bytes + bytes.size() > kLogQueueBytesMax) {
      state_->dropped += bytes.size();
      return false;
    }
    if (state_->kind == Kind::console && state_->dropped > state_->dropped_said) {
      const std::string note =
          fmt::format("\nddprun: dropped {} bytes of output here: nobody read it fast enough\n",
                      state_->dropped - state_->dropped_said);
      state_->dropped_said = state_->dropped;
      state_->queued_bytes += note.size();
      state_->queue.push_back({target, note});
    }
    state_->queued_bytes += bytes.size();
    state_->queue.push_back({target, std::move(bytes)});
  }
  state_->wake.notify_one();
  return true;
}

bool LogWriter::finish(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(state_->mutex);
  return state_->written.wait_until(lock, deadline,
                                    [this] { return state_->queue.empty() && !state_->busy; });
}

std::uint64_t LogWriter::dropped_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->dropped;
}

void LogWriter::run(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  while (true) {
    state->wake.wait(lock, [&] { return state->stop || !state->queue.empty(); });
    if (state->queue.empty()) return;
    Entry entry = std::move(state->queue.front());
    state->queue.pop_front();
    state->busy = true;
    lock.unlock();
    const std::size_t size = entry.bytes.size();
    const std::size_t lost = write_all(entry.target.fd, entry.bytes);
    entry = {};  // may close the file
    lock.lock();
    state->busy = false;
    state->queued_bytes -= size;
    if (state->kind == Kind::files) state->dropped += lost;
    if (state->queue.empty()) state->written.notify_all();
  }
}

}  // namespace ddprun::agent
