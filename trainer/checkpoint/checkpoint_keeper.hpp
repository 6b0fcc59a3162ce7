// Rank 0's side of checkpoints while training: decides when, copies the state, hands it to the
// background writer, and knows at the end whether anything was ever written.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "trainer/checkpoint/checkpoint_cadence.hpp"
#include "trainer/checkpoint/checkpoint_writer.hpp"
#include "trainer/optim/learner.hpp"

namespace ddprun::trainer {

class CheckpointKeeper {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Settings {
    CheckpointEvery every;
    std::uint64_t sequence_next = 0;
    std::int64_t step_on_disk = -1;  ///< of the checkpoint that was resumed; -1: none
    std::int64_t block_on_disk = 0;  ///< of it; after an epoch's last step: whether it is evaluated
    std::string path_on_disk;
    CheckpointWriter::Settings writer;             ///< without on_failure, which is ours
    std::function<void(const std::string&)> warn;  ///< from any thread
    std::function<void(const std::string&)> fail;  ///< the run does not succeed: why
  };

  CheckpointKeeper(Settings settings, Time now);

  /// Whether a checkpoint is due by the place of the state alone: a number of steps, or the end of
  /// an epoch.
  [[nodiscard]] bool due_at(const TrainingState& state) const;

  /// Takes a checkpoint if one is due, or if it is the best so far, unless the last one is of this
  /// very state; or to have the state of the step `wanted` on disk, or a later one, unless the one
  /// before it is still being written. Returns at once, except that a checkpoint that must not be
  /// left out (best, or after a given number of steps) waits up to 10 s for the one before it.
  ///
  /// Nothing that holds an inf or nan is ever written: then gives the name of the first parameter
  /// (or moment) that does. Empty: all is well.
  std::string offer(const TrainingState& state, const Learner& learner, bool best, Time now,
                    std::int64_t wanted = -1);

  /// The step of the newest state on disk; -1: there is none.
  [[nodiscard]] std::int64_t step_on_disk();

  /// Failures to write are warned of once, and counted: at the next checkpoint that is written, and
  /// at the end.
  ///
  /// Writes the last state, if it is not on disk yet or is the best so far, and waits for the disk.
  /// False, with Settings::fail: the last state is not on disk, because it could not be written,
  /// not within its deadline, or holds an inf or nan.
  bool finish(const TrainingState& state, const Learner& learner, bool best = false,
              bool is_news = false);

  /// Gives the write under way a moment: for ends that are not of our choosing.
  void abandon();

  /// Path of the newest one on disk; empty: none.
  [[nodiscard]] std::string newest();

 private:
  [[nodiscard]] bool has_taken(const TrainingState& state) const {
    return step_taken_ == state.step && block_taken_ == state.block;
  }
  [[nodiscard]] bool is_due_for(std::int64_t wanted, Time now);
  std::string take(const TrainingState& state, const Learner& learner, bool best, Time now);
  [[nodiscard]] std::string not_finite_in(const Snapshot& snapshot) const;
  void measure();
  CheckpointWriter::Settings writer_settings();
  void warn_of_failure(const std::string& why);
  void note_writes(const CheckpointWriter::Totals& totals);

  Settings settings_;
  CheckpointCadence cadence_;
  std::int64_t step_taken_;
  std::int64_t block_taken_;
  std::int64_t step_on_disk_;
  std::int64_t written_ = 0;  // checkpoints, when we last looked
  Time not_again_before_{};   // for `wanted`: a disk may be full
  std::chrono::nanoseconds copy_time_{0};
  std::chrono::nanoseconds processor_time_seen_{0};
  bool measured_ = true;
  CheckpointWriter::Failures failures_;  // in a row, when we last looked
  bool links_warned_ = false;
  CheckpointWriter writer_;
};

}  // namespace ddprun::trainer
