// Writes checkpoints on a thread of its own, so that training waits for one copy of the arenas
// only. A disk that is full or read-only is reported, never fatal.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>

#include "trainer/checkpoint/checkpoint_files.hpp"
#include "trainer/checkpoint/directory_claim.hpp"

namespace ddprun::trainer {

/// One thread (the training loop's) calls it.
class CheckpointWriter {
 public:
  struct Settings {
    std::filesystem::path directory;
    std::size_t keep = 2;
    CheckpointLayout layout;
    /// Checked before each checkpoint is published; none: the launcher knows no rounds.
    std::optional<DirectoryClaim> claim = std::nullopt;
    /// Called on the writer's thread with a sentence that names the file and the reason: of several
    /// failures in a row only at the first.
    std::function<void(const std::string&)> on_failure;
  };

  /// Throws DataError where the system refuses a thread.
  explicit CheckpointWriter(Settings settings);
  /// Waits for the write under way, but not longer than kLastWait: a disk that hangs keeps no
  /// process. What is being written then goes on by itself, and reports nothing more; a call of
  /// on_failure that has begun is waited for.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  static constexpr std::chrono::milliseconds kLastWait{500};

  /// Nothing is being written: snapshot() may be filled, then submit()ted.
  [[nodiscard]] bool idle();

  /// The buffer to copy into, allocated by the first call. Only while idle.
  Snapshot& snapshot();

  /// Starts writing snapshot(). Only while idle.
  void submit();

  /// False: the deadline passed and the write still goes on.
  bool wait_idle(std::chrono::steady_clock::time_point deadline);

  /// Failures since the last checkpoint that was written.
  struct Failures {
    std::int64_t count = 0;
    std::chrono::system_clock::time_point since;  ///< the first of them
  };

  /// Totals so far. `processor_time` is what the writing itself used (the disk's waiting not
  /// counted).
  struct Totals {
    std::int64_t written = 0;
    std::int64_t failed = 0;
    Failures in_a_row;
    std::chrono::nanoseconds processor_time{0};
    std::chrono::nanoseconds last_duration{0};  ///< from submit() to the disk
    std::string last_path;
    std::error_code links;  ///< why the last one has no links
  };
  [[nodiscard]] Totals totals();

 private:
  struct Work;

  std::shared_ptr<Work> work_;  // also the thread's, which may outlive us
  std::thread thread_;
};

}  // namespace ddprun::trainer
