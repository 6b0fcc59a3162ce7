#include "trainer/checkpoint/checkpoint_writer.hpp"

#include <fmt/format.h>

#include <ctime>
#include <exception>

#include "base/assert.hpp"
#include "trainer/checkpoint/checkpoint_directory.hpp"

namespace ddprun::trainer {
namespace {

std::chrono::nanoseconds thread_processor_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

CheckpointWriter::CheckpointWriter(Settings settings)
    : settings_(std::move(settings)), snapshot_(settings_.layout), thread_([this] { run(); }) {}

CheckpointWriter::~CheckpointWriter() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool CheckpointWriter::idle() {
  const std::lock_guard lock(mutex_);
  return !busy_;
}

void CheckpointWriter::submit() {
  {
    const std::lock_guard lock(mutex_);
    DDPRUN_ASSERT(!busy_, "a checkpoint submitted while another is written");
    busy_ = true;
  }
  changed_.notify_all();
}

bool CheckpointWriter::wait_idle(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [this] { return !busy_; });
}

CheckpointWriter::Totals CheckpointWriter::totals() {
  const std::lock_guard lock(mutex_);
  return totals_;
}

void CheckpointWriter::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return busy_ || stopping_; });
    if (!busy_) return;
    lock.unlock();
    write_one();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

void CheckpointWriter::write_one() {
  const auto start = thread_processor_time();
  const auto began = std::chrono::steady_clock::now();
  const auto wall_time = std::chrono::system_clock::now();
  std::string path;
  try {
    PendingCheckpoint pending(settings_.directory);
    write_checkpoint(pending.path(), settings_.layout, snapshot_);
    path = pending.publish(snapshot_.state.step, snapshot_.state.best).string();
    prune(settings_.directory, snapshot_.state.lineage, settings_.keep);
  } catch (const std::exception& error) {
    // Not rethrown: training continues, and earlier checkpoints are intact.
    if (totals().in_a_row.count == 0) settings_.on_failure(error.what());
  }
  const std::lock_guard lock(mutex_);
  totals_.processor_time += thread_processor_time() - start;
  totals_.last_duration = std::chrono::steady_clock::now() - began;
  if (path.empty()) {
    ++totals_.failed;
    if (totals_.in_a_row.count++ == 0) totals_.in_a_row.since = wall_time;
  } else {
    ++totals_.written;
    totals_.in_a_row = {};
    totals_.last_path = path;
  }
}

}  // namespace ddprun::trainer
