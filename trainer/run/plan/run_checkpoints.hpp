// Rank 0's checkpoints of a run: what they hold, which round may write them, and the keeper.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "trainer/checkpoint/checkpoint_directory.hpp"
#include "trainer/checkpoint/checkpoint_keeper.hpp"
#include "trainer/checkpoint/directory_claim.hpp"
#include "trainer/data/train_and_test.hpp"
#include "trainer/model/graph.hpp"
#include "trainer/run/cli/environment.hpp"
#include "trainer/run/cli/options.hpp"
#include "trainer/run/plan/start.hpp"
#include "trainer/run/report/report.hpp"

namespace ddprun::trainer {

CheckpointLayout make_layout(const Options& options, const Graph& graph, const TrainAndTest& sets,
                             const Preparation& preparation);

/// Claims `out` for the environment's round; none: there are no rounds, or the disk is full (with a
/// warning). Throws DataError as DirectoryClaim does.
std::optional<DirectoryClaim> claim_directory(const std::filesystem::path& out,
                                              const WorkerEnvironment& environment, Report& report);

/// `report` outlives the keeper.
std::unique_ptr<CheckpointKeeper> make_keeper(const Options& options, const StartingPoint& start,
                                              const std::filesystem::path& out,
                                              CheckpointLayout layout,
                                              std::optional<DirectoryClaim> claim, Report& report);

}  // namespace ddprun::trainer
