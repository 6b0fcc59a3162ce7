#include "agent/streams/log_writer.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include "agent/streams/log_limits.hpp"

namespace ddprun::agent {

using namespace std::chrono_literals;

namespace {

constexpr auto kHangingWriteLimit = 100ms;
constexpr std::size_t kSpareBuffers = 4;

}  // namespace

LogWriter::~LogWriter() {
  if (!thread_.joinable()) return;
  bool idle = false;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
    idle = state_->queue.empty() && !state_->at_work;
  }
  state_->wake.notify_one();
  // A thread that waits for a reader that has stopped must not keep us from exiting.
  if (idle) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void LogWriter::write(std::shared_ptr<LogOutput> output, LogBuffer bytes) {
  if (bytes.empty()) return;
  State& state = *state_;
  Entry entry{std::move(output), std::move(bytes)};
  {
    std::unique_lock lock(state.mutex);
    if (put_out_now(state, lock, entry)) return;
    const std::size_t left = entry.bytes.size() - entry.done;
    if (!make_room(state, lock, left)) {
      state.dropped += left;
      return;
    }
    if (state.settings.kind == LogWriterSettings::Kind::console &&
        state.dropped > state.dropped_said) {
      LogBuffer note(
          fmt::format("\nddprun: dropped {} bytes of output here: nobody read it fast enough\n",
                      state.dropped - state.dropped_said));
      state.dropped_said = state.dropped;
      state.queued_bytes += note.size();
      state.queue.push_back({entry.output, std::move(note)});
    }
    state.queued_bytes += left;
    state.queue.push_back(std::move(entry));
  }
  if (!thread_.joinable()) thread_ = std::thread(run, state_);
  state.wake.notify_one();
}

/// True: the entry is done with.
bool LogWriter::put_out_now(State& state, std::unique_lock<std::mutex>& lock, Entry& entry) {
  const bool idle = state.queue.empty() && !state.at_work;
  if (!idle || state.given_up || state.dropped > state.dropped_said) return false;
  if (!entry.output->prompt()) return false;
  state.going_out = true;
  lock.unlock();
  const LogOutput::Taken taken = entry.output->take(entry.bytes.view());
  lock.lock();
  state.going_out = false;
  if (state.waiting > 0) state.taken.notify_all();
  state.dropped += taken.lost;
  entry.done = taken.written + taken.lost + taken.unwanted;
  if (entry.done < entry.bytes.size()) return false;
  keep_spare(state, std::move(entry.bytes));
  return true;
}

void LogWriter::keep_spare(State& state, LogBuffer bytes) {
  if (bytes.capacity() < kLogBufferBytes || state.spare.size() >= kSpareBuffers) return;
  bytes.clear();
  state.spare.push_back(std::move(bytes));
}

bool LogWriter::make_room(State& state, std::unique_lock<std::mutex>& lock, std::size_t bytes) {
  const auto settled = [&] { return state.given_up || state.fits(bytes); };
  if (state.dropping && state.queued_bytes > state.settings.queue_bytes_max / 2) return false;
  state.dropping = false;
  if (settled()) return !state.given_up;
  ++state.waiting;
  if (state.settings.policy == LogPolicy::block) {
    state.taken.wait(lock, settled);
  } else {
    while (true) {
      const std::uint64_t before = state.taken_bytes;
      if (state.taken.wait_for(lock, state.settings.patience, settled)) break;
      const bool moves = state.taken_bytes > before;
      if (state.settings.kind == LogWriterSettings::Kind::files && moves) continue;
      state.dropping = true;
      break;
    }
  }
  --state.waiting;
  return !state.given_up && !state.dropping;
}

LogBuffer LogWriter::buffer() {
  LogBuffer buffer;
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->spare.empty()) {
      buffer = std::move(state_->spare.back());
      state_->spare.pop_back();
    }
  }
  if (buffer.capacity() == 0) buffer.room(kLogBufferBytes);
  return buffer;
}

bool LogWriter::finish(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(state_->mutex);
  ++state_->waiting;
  const bool done =
      state_->taken.wait_until(lock, deadline, [this] { return state_->queued_bytes == 0; });
  --state_->waiting;
  return done;
}

void LogWriter::give_up() {
  State& state = *state_;
  {
    std::unique_lock lock(state.mutex);
    if (state.settled) return;
    state.given_up = true;
    ++state.waiting;
    state.taken.wait_for(lock, kHangingWriteLimit, [&] { return !state.going_out; });
    --state.waiting;
    state.settled = true;
    state.dropped += state.queued_bytes;
    state.queued_bytes = 0;
    state.queue.clear();
  }
  state.taken.notify_all();
}

std::uint64_t LogWriter::dropped_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->dropped;
}

void LogWriter::run(const std::shared_ptr<State>& state) {
  pthread_setname_np(pthread_self(), "log writer");
  std::unique_lock lock(state->mutex);
  while (true) {
    state->wake.wait(lock, [&] { return state->stop || !state->queue.empty(); });
    if (state->queue.empty()) return;
    Entry entry = std::move(state->queue.front());
    state->queue.pop_front();
    state->at_work = true;
    lock.unlock();
    put_out(*state, entry);
    entry.output.reset();  // may close the file
    lock.lock();
    state->at_work = false;
    keep_spare(*state, std::move(entry.bytes));
  }
}

void LogWriter::put_out(State& state, Entry& entry) {
  std::string_view bytes = entry.bytes.view().substr(entry.done);
  while (!bytes.empty()) {
    {
      const std::lock_guard lock(state.mutex);
      if (state.given_up) return;
      state.going_out = true;
    }
    const LogOutput::Taken taken = entry.output->take(bytes);
    const std::size_t done = taken.written + taken.lost + taken.unwanted;
    {
      const std::lock_guard lock(state.mutex);
      state.going_out = false;
      if (state.settled) return;  // a write that hung: counted as dropped
      state.queued_bytes -= done;
      state.taken_bytes += done;
      state.dropped += taken.lost;
      if (state.waiting > 0) state.taken.notify_all();
    }
    bytes.remove_prefix(done);
    if (!bytes.empty()) entry.output->wait();
  }
}

}  // namespace ddprun::agent
