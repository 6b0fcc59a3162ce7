#include "agent/streams/worker_output.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/start_thread.hpp"

namespace ddprun::agent {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

namespace {

constexpr auto kLastReadLimit = 200ms;   // for what is left in the pipes of dead workers
constexpr auto kLastWriteLimit = 300ms;  // for files, after a console that was stuck to the end

}  // namespace

WorkerOutput::WorkerOutput(OutputSettings settings)
    : outlets_(settings, [this] { watch_.wake(); }),
      reader_(settings, watch_, requests_, tails_, outlets_) {}

WorkerOutput::~WorkerOutput() {
  for (LogWriter* writer : outlets_.writers()) writer->give_up();
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(requests_.mutex);
    requests_.stop = true;
  }
  watch_.wake();
  thread_.join();
}

/// Called under the lock.
ErrorCode WorkerOutput::start() {
  if (thread_.joinable()) return {};
  auto thread = start_thread("log", [this] { reader_.run(); });
  if (!thread) return thread.error();
  thread_ = std::move(*thread);
  return {};
}

ErrorCode WorkerOutput::add(std::vector<OutputSource> sources) {
  {
    // The thread takes the sources when it is woken, not while they are added.
    const std::lock_guard lock(requests_.mutex);
    if (const ErrorCode refused = start()) return refused;
    if (const ErrorCode refused = watch_.add(sources)) return refused;
    for (OutputSource& source : sources) {
      ++requests_.open_streams[source.worker()];
      requests_.next_round = std::max(requests_.next_round, source.round + 1);
      requests_.new_sources.push_back(std::move(source));
    }
  }
  watch_.wake();
  return {};
}

bool WorkerOutput::say(std::string line) {
  {
    const std::lock_guard lock(requests_.mutex);
    if (start()) return false;
    requests_.new_lines.push_back(std::move(line));
  }
  watch_.wake();
  return true;
}

void WorkerOutput::resize(Steady::time_point deadline) {
  std::unique_lock lock(requests_.mutex);
  if (!thread_.joinable()) return;
  const std::uint64_t wanted = ++requests_.resize.wanted;
  watch_.wake();
  requests_.changed.wait_until(lock, deadline, [&] { return requests_.resize.done >= wanted; });
}

void WorkerOutput::pause(Steady::time_point deadline) {
  std::unique_lock lock(requests_.mutex);
  if (!requests_.pause.wanted) requests_.pause.done = false;  // that answers an earlier pause
  requests_.pause.wanted = true;
  if (!thread_.joinable()) return;
  watch_.wake();
  requests_.changed.wait_until(lock, deadline, [this] { return requests_.pause.done; });
}

void WorkerOutput::resume() {
  {
    const std::lock_guard lock(requests_.mutex);
    requests_.pause.wanted = false;
  }
  watch_.wake();
}

bool WorkerOutput::catch_up(Steady::time_point deadline) {
  const std::uint64_t wanted = begin_catch_up();
  std::unique_lock lock(requests_.mutex);
  return requests_.changed.wait_until(lock, deadline,
                                      [&] { return requests_.catch_up.done >= wanted; });
}

std::uint64_t WorkerOutput::begin_catch_up() {
  const std::lock_guard lock(requests_.mutex);
  if (!thread_.joinable()) return 0;
  watch_.wake();
  return ++requests_.catch_up.wanted;
}

bool WorkerOutput::has_caught_up(std::uint64_t number) const {
  const std::lock_guard lock(requests_.mutex);
  return requests_.catch_up.done >= number;
}

void WorkerOutput::begin_drain(KeptWorkers kept) {
  {
    const std::lock_guard lock(requests_.mutex);
    requests_.streams_must_end = true;
    requests_.over = requests_.next_round;
    requests_.kept = kept.empty() ? nullptr : std::make_shared<const KeptWorkers>(std::move(kept));
  }
  watch_.wake();
}

bool WorkerOutput::has_drained() const {
  const std::lock_guard lock(requests_.mutex);
  return requests_.is_drained();
}

void WorkerOutput::end_drain() {
  const std::lock_guard lock(requests_.mutex);
  requests_.streams_must_end = false;
}

void WorkerOutput::drain(Steady::time_point deadline) {
  begin_drain();
  {
    std::unique_lock lock(requests_.mutex);
    requests_.changed.wait_until(lock, deadline, [this] { return requests_.is_drained(); });
  }
  end_drain();
}

void WorkerOutput::flush(Steady::time_point deadline) {
  bool drawn = false;
  {
    std::unique_lock lock(requests_.mutex);
    requests_.end_folds.wanted = true;
    watch_.wake();
    requests_.changed.wait_until(lock, deadline, [this] {
      return !thread_.joinable() || (requests_.new_lines.empty() && requests_.end_folds.done);
    });
    drawn = requests_.sight.unfinished_out || requests_.sight.unfinished_err;
  }
  if (drawn) pause(deadline);  // no bar stays behind
  const bool shown = shown_by(deadline);
  outlets_.give_up_consoles();
  if (!shown) {
    drain(Steady::now() + kLastReadLimit);
    deadline = std::max(deadline, Steady::now() + kLastWriteLimit);
  }
  if (!outlets_.files().finish(deadline)) {
    outlets_.files().give_up();
    drain(Steady::now() + kLastReadLimit);
  }
  outlets_.files().give_up();
}

bool WorkerOutput::last_lines_in_sight(proto::RoundNumber round, int local_rank) const {
  if (dropped_bytes() > 0) return false;
  OutputSight sight;
  {
    const std::lock_guard lock(requests_.mutex);
    sight = requests_.sight;
  }
  return tails_.are_in_sight(round, local_rank, sight.first, sight.columns);
}

bool WorkerOutput::unfinished_line(bool standard_error) const {
  const std::lock_guard lock(requests_.mutex);
  return standard_error ? requests_.sight.unfinished_err : requests_.sight.unfinished_out;
}

}  // namespace ddprun::agent
