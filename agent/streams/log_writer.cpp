#include "agent/streams/log_writer.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstring>
#include <utility>

#include "agent/streams/log_buffer.hpp"
#include "base/start_thread.hpp"

namespace ddprun::agent {

using namespace std::chrono_literals;

namespace {

constexpr auto kHangingWriteLimit = 100ms;
constexpr std::size_t kSpareBuffers = 4;

void say_refused(int error) {
  spdlog::warn("stdout or stderr cannot be written: {}: what the workers print there is lost",
               std::strerror(error));
}

}  // namespace

LogWriter::~LogWriter() {
  if (!thread_.joinable()) return;
  bool idle = false;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
    idle = state_->queue.entries.empty() && !state_->at_work;
  }
  state_->wake.notify_one();
  // A thread that waits for a reader that has stopped must not keep us from exiting.
  if (idle) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void LogWriter::Queue::push(Entry entry) {
  const std::size_t left = entry.bytes.size() - entry.done;
  if (bytes == 0) moved_at = Clock::now();
  bytes += left;
  if (entry.origin == LogOrigin::ours) own_bytes += left;
  entries.push_back(std::move(entry));
}

void LogWriter::Queue::take(LogOrigin origin, std::size_t taken) {
  bytes -= taken;
  if (origin == LogOrigin::ours) own_bytes -= taken;
  taken_bytes += taken;
  if (taken > 0) moved_at = Clock::now();
}

bool LogWriter::State::drops() {
  if (queue.bytes <= settings.queue_bytes_max / 2) dropping = false;
  return dropping;
}

bool LogWriter::State::takes(std::size_t bytes, LogOrigin origin) {
  if (given_up) return false;
  if (origin == LogOrigin::ours) return queue.own_bytes + bytes <= kOwnBytesMax;
  if (drops()) return false;
  // What was asked for comes, however much a read has brought; beyond that only what the dead
  // leave.
  return settings.kind == LogWriterSettings::Kind::files || queue.bytes == 0 ||
         queue.bytes + bytes <= kQueuesAtMost * settings.queue_bytes_max;
}

void LogWriter::State::count_lost(LogOrigin origin, std::size_t bytes) {
  if (origin == LogOrigin::workers) dropped += bytes;
}

bool LogWriter::accepts(Clock::time_point now, LogUrgency urgency) {
  State& state = *state_;
  const bool files = state.settings.kind == LogWriterSettings::Kind::files;
  const bool round_over = urgency == LogUrgency::round_over;
  const bool evidence = urgency == LogUrgency::evidence;
  const std::size_t queues = evidence ? 2 : 1;
  Waiting& waiting = evidence ? evidence_ : usual_;
  const std::lock_guard lock(state.mutex);
  const bool full = state.queue.bytes >= queues * state.settings.queue_bytes_max;
  // A caller that was told to wait comes back when there is room for much, not for each little
  // piece.
  const bool come_later = full || (state.wanted && !evidence);
  if (!come_later || state.given_up || state.drops() || (round_over && !files)) {
    waiting.since.reset();
    return true;
  }
  state.wanted = true;
  if (state.settings.policy == LogPolicy::block && !round_over) return false;
  const bool moves = state.queue.taken_bytes > waiting.taken_before;
  if (!waiting.since || (moves && state.settings.policy != LogPolicy::drop)) {
    waiting.since = now;
    waiting.taken_before = state.queue.taken_bytes;
  }
  if (now - *waiting.since < state.settings.patience) return false;
  state.dropping = full;
  state.wanted = false;
  waiting.since.reset();
  return true;
}

std::optional<LogWriter::Clock::time_point> LogWriter::patience_ends() const {
  std::optional<Clock::time_point> first;
  for (const auto& since : {usual_.since, evidence_.since}) {
    if (since && (!first || *since < *first)) first = since;
  }
  return first ? std::optional(*first + state_->settings.patience) : std::nullopt;
}

void LogWriter::write(std::shared_ptr<ByteOutput> output, LogBuffer bytes, LogOrigin origin) {
  if (bytes.empty()) return;
  State& state = *state_;
  Entry entry{std::move(output), std::move(bytes), origin};
  {
    std::unique_lock lock(state.mutex);
    if (put_out_now(state, lock, entry)) return;
    const std::size_t left = entry.bytes.size() - entry.done;
    if (!state.takes(left, origin)) {
      state.count_lost(origin, left);
      return;
    }
    if (state.settings.kind == LogWriterSettings::Kind::console &&
        state.dropped > state.dropped_reported) {
      LogBuffer note(fmt::format("\nddprun: dropped {} bytes of output here: {}\n",
                                 state.dropped - state.dropped_reported, state.settings.reason));
      state.dropped_reported = state.dropped;
      state.queue.push({entry.output, std::move(note), LogOrigin::ours});
    }
    state.queue.push(std::move(entry));
  }
  start();
  state.wake.notify_one();
}

/// Without a thread what is queued is written here: a slow reader slows the workers then.
void LogWriter::start() {
  if (thread_.joinable()) return;
  auto thread = start_thread("log writer", [state = state_] { run(*state); });
  if (thread) {
    thread_ = std::move(*thread);
    return;
  }
  static std::atomic<bool> said = false;  // by any writer
  if (!said.exchange(true)) {
    spdlog::warn("{}; ddprun writes without it, so a slow reader slows the workers",
                 why_no_thread(thread.error()));
  }
  std::unique_lock lock(state_->mutex);
  write_queue(*state_, lock);
}

/// True: the entry is done with.
bool LogWriter::put_out_now(State& state, std::unique_lock<std::mutex>& lock, Entry& entry) {
  const bool idle = state.queue.entries.empty() && !state.at_work;
  if (!idle || state.given_up || state.dropped > state.dropped_reported) return false;
  if (!entry.output->prompt()) return false;
  state.going_out = true;
  lock.unlock();
  const ByteOutput::Taken taken = entry.output->take(entry.bytes.view());
  lock.lock();
  state.going_out = false;
  if (state.waiting > 0) state.taken.notify_all();
  state.count_lost(entry.origin, taken.lost);
  const bool is_news = state.is_first_refusal(taken.error);
  state.unread = taken.unwanted > 0;
  entry.done = taken.written + taken.lost + taken.unwanted;
  if (is_news) say_refused(taken.error);
  if (entry.done < entry.bytes.size()) return false;
  keep_spare(state, std::move(entry.bytes));
  return true;
}

void LogWriter::keep_spare(State& state, LogBuffer bytes) {
  if (bytes.capacity() < kLogBufferBytes || state.spare.size() >= kSpareBuffers) return;
  bytes.clear();
  state.spare.push_back(std::move(bytes));
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
      state_->taken.wait_until(lock, deadline, [this] { return state_->queue.bytes == 0; });
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
    state.dropped += state.queue.bytes - state.queue.own_bytes;
    state.queue.bytes = 0;
    state.queue.own_bytes = 0;
    state.queue.entries.clear();
  }
  state.taken.notify_all();
}

std::uint64_t LogWriter::dropped_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->dropped;
}

bool LogWriter::unread() const {
  const std::lock_guard lock(state_->mutex);
  return state_->unread;
}

bool LogWriter::is_slow(Clock::time_point now) const {
  const std::lock_guard lock(state_->mutex);
  return state_->queue.bytes > 0 && state_->settings.policy != LogPolicy::drop &&
         now - state_->queue.moved_at < state_->settings.patience;
}

int LogWriter::refusal() const {
  const std::lock_guard lock(state_->mutex);
  return state_->refusal;
}

bool LogWriter::idle() const {
  const std::lock_guard lock(state_->mutex);
  return state_->queue.bytes == 0;
}

void LogWriter::run(State& state) {
  std::unique_lock lock(state.mutex);
  while (true) {
    state.wake.wait(lock, [&] { return state.stop || !state.queue.entries.empty(); });
    if (state.queue.entries.empty()) return;
    write_queue(state, lock);
  }
}

void LogWriter::write_queue(State& state, std::unique_lock<std::mutex>& lock) {
  while (!state.queue.entries.empty()) {
    Entry entry = std::move(state.queue.entries.front());
    state.queue.entries.pop_front();
    state.at_work = true;
    lock.unlock();
    put_out(state, entry);
    entry.output.reset();  // may close the file
    lock.lock();
    state.at_work = false;
    keep_spare(state, std::move(entry.bytes));
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
    const ByteOutput::Taken taken = entry.output->take(bytes);
    const std::size_t done = taken.written + taken.lost + taken.unwanted;
    bool is_news = false;
    {
      const std::lock_guard lock(state.mutex);
      state.going_out = false;
      if (state.settled) return;  // a write that hung: counted as dropped
      state.queue.take(entry.origin, done);
      state.unread = taken.unwanted > 0;
      state.count_lost(entry.origin, taken.lost);
      is_news = state.is_first_refusal(taken.error);
      if (state.waiting > 0) state.taken.notify_all();
      if (state.wanted && state.queue.bytes <= state.settings.queue_bytes_max / 2) {
        state.wanted = false;
        if (state.room_made) state.room_made();
      }
    }
    if (is_news) say_refused(taken.error);
    bytes.remove_prefix(done);
    if (!bytes.empty()) entry.output->wait();
  }
}

}  // namespace ddprun::agent
