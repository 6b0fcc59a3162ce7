// Runs of `train` that signals end, alone or as workers of ddprun, and that go on later.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "tests/integration/trainer/run/worker_group.hpp"
#include "tests/support/child.hpp"
#include "tests/support/temp_dir.hpp"

namespace ddprun::test {

/// Epochs of eight steps, of which no cadence writes a checkpoint. Each step has a line in
/// `metrics.jsonl`.
class StoppableRun {
 public:
  /// `launcher`: ddprun and its options; empty: train alone.
  StoppableRun(const SmallData& data, std::vector<std::string> launcher);

  [[nodiscard]] std::vector<std::string> command(
      int epochs = 3, const std::string& checkpoint_every = "1000") const;
  [[nodiscard]] ChildOptions settings() const;
  /// Starts it, and waits until so many steps of all are done.
  void wait_for_steps(Child& child, std::size_t steps) const;
  /// Its process of a local rank; -1: there is none.
  [[nodiscard]] pid_t worker(int local_rank) const;

  /// Sends SIGTERM after so many further steps and then `delay`, and checks that the run has ended
  /// in order: with 143, or with 0 if it was over. False: it was over.
  bool stop_after(std::size_t steps, std::chrono::milliseconds delay);
  /// Runs it to its end. Gives the hash of the weights.
  std::string finish();

  [[nodiscard]] std::filesystem::path out() const { return directory_ / "out"; }
  /// The lines of `metrics.jsonl`, which all must be whole, of this type.
  [[nodiscard]] std::vector<std::string> lines(const std::string& type) const;
  /// Checks that every step so far was computed once, and is in the newest checkpoint.
  void check_no_step_is_lost() const;

 private:
  TempDir directory_;
  std::string data_;
  std::vector<std::string> launcher_;
  std::string mark_ = unique_mark();
};

/// Stops a run at moments that `seed` chooses, until it is over: most of them some steps and a few
/// milliseconds later, some as long after its start, where it may not train yet. Checks that it
/// lost no step and has the weights `base`. Gives how often it was stopped in training.
std::size_t stop_at_random(const SmallData& data, const std::string& base,
                           const std::vector<std::string>& launcher, unsigned seed);

/// ddprun with two workers.
std::vector<std::string> two_workers(const std::vector<std::string>& more = {});

}  // namespace ddprun::test
