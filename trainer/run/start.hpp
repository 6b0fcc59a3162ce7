// How a run starts: from a checkpoint or fresh, and the same on every rank.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint_directory.hpp"
#include "trainer/comm/communicator.hpp"
#include "trainer/optim/learner.hpp"
#include "trainer/run/plan.hpp"
#include "trainer/run/report.hpp"

namespace ddprun::trainer {

/// What rank 0 found in the directory of checkpoints.
struct StartingPoint {
  std::optional<Snapshot> snapshot;  ///< none: a fresh start
  std::string path;
  std::uint64_t sequence_next = 0;
};

/// Looks for the newest checkpoint of this run, computed on `compute` (a device's description), and
/// warns about newer ones that are skipped. With
/// --resume=strict throws DataError instead of skipping. Also removes what dead writers left
/// behind.
StartingPoint find_start(const Options& options, const WorkerEnvironment& environment,
                         const DataFacts& data, const std::filesystem::path& out,
                         const CheckpointLayout& layout, const std::string& compute,
                         Report& report);

/// The state of a run that starts now.
TrainingState fresh_state(const TrainPlan& plan);

/// Copies a checkpoint's arenas and the step's numbers to where training uses them.
void restore(const Snapshot& snapshot, Learner& learner);

/// Gives rank 0's state, parameters and moments to all. Throws DataError where this rank's options
/// make another run than rank 0's, or would make the ranks miss each other.
CommResult distribute(Communicator& communicator, const TrainPlan& plan, TrainingState& state,
                      Learner& learner, Clock::time_point deadline);

/// The directory of a run, made at its start: workers that are restarted find it even if the first
/// ones died before they wrote anything. Unless kept, the destructor removes again what was made
/// and is still empty.
class RunDirectory {
 public:
  /// Throws DataError when checkpoints could not be written to `path` (not a directory, no
  /// permission, read-only).
  explicit RunDirectory(const std::filesystem::path& path);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  void keep() { made_.clear(); }

 private:
  std::vector<std::filesystem::path> made_;  // innermost first
};

}  // namespace ddprun::trainer
