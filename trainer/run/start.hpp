// How a run starts: from a checkpoint or fresh, and the same on every rank.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "trainer/checkpoint/checkpoint_directory.hpp"
#include "trainer/comm/communicator.hpp"
#include "trainer/compute/optimizer.hpp"
#include "trainer/run/plan.hpp"
#include "trainer/run/report.hpp"

namespace ddprun::trainer {

/// What rank 0 found in the directory of checkpoints.
struct StartingPoint {
  std::optional<Snapshot> snapshot;  ///< none: a fresh start
  std::string path;
  std::uint64_t sequence_next = 0;
};

/// Looks for the newest checkpoint of this run and warns about newer ones that are skipped. With
/// --resume=strict throws DataError instead of skipping. Also removes what dead writers left
/// behind.
StartingPoint find_start(const Options& options, const WorkerEnvironment& environment,
                         const DataFacts& data, const std::filesystem::path& out,
                         const CheckpointLayout& layout, Report& report);

/// The state of a run that starts now.
TrainingState fresh_state(const TrainPlan& plan);

/// Copies a checkpoint's arenas to where training uses them.
void restore(const Snapshot& snapshot, std::span<float> parameters, Optimizer& optimizer);

/// Gives rank 0's state, parameters and moments to all. Throws DataError where this rank's options
/// make another run than rank 0's.
CommResult distribute(Communicator& communicator, const TrainPlan& plan, TrainingState& state,
                      std::span<float> parameters, Optimizer& optimizer,
                      Clock::time_point deadline);

/// Throws DataError when checkpoints could not be written to `out` (not a directory, no permission,
/// read-only).
void check_writable(const std::filesystem::path& out);

}  // namespace ddprun::trainer
