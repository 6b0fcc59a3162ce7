#include "trainer/checkpoint/checkpoint_writer.hpp"

#include <fmt/format.h>

#include <condition_variable>
#include <ctime>
#include <exception>
#include <mutex>
#include <new>
#include <utility>

#include "base/assert.hpp"
#include "base/start_thread.hpp"
#include "trainer/checkpoint/checkpoint_directory.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

std::chrono::nanoseconds thread_processor_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

struct CheckpointWriter::Work {
  explicit Work(Settings wanted) : settings(std::move(wanted)) {}

  void run();
  void write_one();
  void report(const std::string& failure);

  Settings settings;
  Snapshot snapshot;  // empty before the first checkpoint

  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  bool busy = false;
  bool stopping = false;
  bool reporting = false;  // on_failure is running, which may belong to an object of the owner
  Totals totals;
};

CheckpointWriter::CheckpointWriter(Settings settings)
    : work_(std::make_shared<Work>(std::move(settings))) {
  auto thread = start_thread("checkpoint", [work = work_] { work->run(); });
  if (!thread) {
    throw DataError(fmt::format("checkpoints need a thread: {}", why_no_thread(thread.error())));
  }
  thread_ = std::move(*thread);
}

CheckpointWriter::~CheckpointWriter() {
  const bool written = wait_idle(std::chrono::steady_clock::now() + kLastWait);
  {
    std::unique_lock lock(work_->mutex);
    work_->stopping = true;
    work_->changed.wait(lock, [this] { return !work_->reporting; });
  }
  work_->changed.notify_all();
  if (written) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

Snapshot& CheckpointWriter::snapshot() {
  Snapshot& snapshot = work_->snapshot;
  if (snapshot.parameters.size() == 0) snapshot = Snapshot(work_->settings.layout);
  return snapshot;
}

bool CheckpointWriter::idle() {
  const std::lock_guard lock(work_->mutex);
  return !work_->busy;
}

void CheckpointWriter::submit() {
  {
    const std::lock_guard lock(work_->mutex);
    DDPRUN_ASSERT(!work_->busy, "a checkpoint submitted while another is written");
    work_->busy = true;
  }
  work_->changed.notify_all();
}

bool CheckpointWriter::wait_idle(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(work_->mutex);
  return work_->changed.wait_until(lock, deadline, [this] { return !work_->busy; });
}

CheckpointWriter::Totals CheckpointWriter::totals() {
  const std::lock_guard lock(work_->mutex);
  return work_->totals;
}

void CheckpointWriter::Work::run() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return busy || stopping; });
    if (!busy) return;
    lock.unlock();
    write_one();
    lock.lock();
    busy = false;
    changed.notify_all();
  }
}

/// The first of several in a row, while there is a caller to report it to.
void CheckpointWriter::Work::report(const std::string& failure) {
  {
    const std::lock_guard lock(mutex);
    if (stopping || totals.in_a_row.count > 0) return;
    reporting = true;
  }
  settings.on_failure(failure);
  {
    const std::lock_guard lock(mutex);
    reporting = false;
  }
  changed.notify_all();
}

void CheckpointWriter::Work::write_one() {
  const auto start = thread_processor_time();
  const auto began = std::chrono::steady_clock::now();
  const auto wall_time = std::chrono::system_clock::now();
  PublishedCheckpoint published;
  try {
    PendingCheckpoint pending(settings.directory);
    write_checkpoint(pending.path(), settings.layout, snapshot);
    const UniqueFd held = settings.claim ? settings.claim->hold() : UniqueFd();
    published = pending.publish(snapshot.state.step, snapshot.state.best);
    prune(settings.directory, snapshot.state.origin.lineage, settings.keep);
  } catch (const std::bad_alloc&) {
    report("out of memory");
  } catch (const std::exception& error) {
    report(error.what());  // not rethrown: training continues, and earlier checkpoints are intact
  }
  const std::lock_guard lock(mutex);
  totals.processor_time += thread_processor_time() - start;
  totals.last_duration = std::chrono::steady_clock::now() - began;
  if (published.path.empty()) {
    ++totals.failed;
    if (totals.in_a_row.count++ == 0) totals.in_a_row.since = wall_time;
  } else {
    ++totals.written;
    totals.in_a_row = {};
    totals.last_path = published.path.string();
    totals.links = published.links;
  }
}

}  // namespace ddprun::trainer
