// What a run is going to do, from options, environment and data: shards, batches, steps, schedule,
// and the configuration that its checkpoints carry. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/checkpoint/training_state.hpp"
#include "trainer/compute/step_state.hpp"
#include "trainer/data/data_set.hpp"
#include "trainer/optim/schedule.hpp"
#include "trainer/run/cli/environment.hpp"
#include "trainer/run/cli/options.hpp"

namespace ddprun::trainer {

struct TrainPlan {
  int shards = 1;    ///< V
  int batch = 1;     ///< b
  int replicas = 1;  ///< of this worker: 1 with ddp; with dp they divide V
  std::int64_t steps_per_epoch = 1;
  std::int64_t total_steps = 1;  ///< of all epochs
  std::int64_t last_step =
      1;  ///< where this run stops: total_steps, or --max-steps if that is less
  Schedule schedule;
  ScalerConfig scaler;
  RunConfig config;  ///< what checkpoints record
  RunConfig loop;    ///< what further must be alike on every rank, or they would not meet
};

/// Shards with running statistics that count: with dp those of replica 0.
constexpr int statistic_shards(const TrainPlan& plan) { return plan.shards / plan.replicas; }

/// Entries that older checkpoints lack. TrainPlan::config has those that are not as in Options{}.
RunConfig later_entries(const Options& options);

/// The entry of TrainPlan::config that rank 0 alone has, as it alone reads the file.
inline constexpr const char* kInitFromEntry = "init_from";

/// What of its input the plan depends on. Two sets are the same if their content is.
struct DataFacts {
  std::string name;
  std::string content;       ///< DataSet::content_hash() of the training set, as text
  std::string test_content;  ///< of the held-out set
  std::size_t samples = 0;
  ImageShape shape;
  int classes = 0;
  TextShape text = {};            ///< zeros: images
  std::uint64_t mask_pixels = 0;  ///< ImageSet::mask_pixels() of the training set
  std::string initial_weights =
      {};  ///< their hash if they are those of --init-from; known to rank 0
};
DataFacts facts_of(const DataSet& train, const DataSet& test);

/// --pos-weight; auto: the training set's pixels outside of its masks, divided by those inside, as
/// PyTorch's documentation of BCEWithLogitsLoss has it. Throws DataError where none or all
/// are inside.
double positive_weight_of(const Options& options, const DataFacts& data);

/// Throws DataError where dp was asked of one of several workers, or where --local-rank is not that
/// of the environment.
void check_parallel(const Options& options, const WorkerEnvironment& environment);

/// Throws DataError: a global batch that V does not divide, fewer shards than workers, shards that
/// replicas do not divide.
/// `shards_there` is V of the checkpoint to go on from; it counts only where --shards was not
/// given.
TrainPlan make_plan(const Options& options, const WorkerEnvironment& environment,
                    const DataFacts& data, std::optional<int> shards_there);

/// Outputs of the head: --classes, else the data's classes; 1 of masks. Throws DataError where the
/// data has more.
int head_classes(const Options& options, const DataFacts& data);

/// The optimizer that the options ask for.
OptimizerConfig optimizer_config(const Options& options);

/// Where --schedule=plateau has come to after these epochs, the oldest first. Others have no state.
PlateauState plateau_after(const std::vector<EpochSummary>& epochs, const Options& options,
                           const Schedule& schedule);

/// V that a checkpoint's configuration records, if it does.
std::optional<int> shards_of(const RunConfig& config);

/// How many shards a worker computes side by side: with dp one for each replica; else --lanes, or
/// as many as its share of `cores` has room for; at most `shards_mine`.
int choose_lanes(const Options& options, const WorkerEnvironment& environment, int cores,
                 int shards_mine);

/// In place of a number of cores: a GPU computes, and its work comes from one thread.
inline constexpr int kNoCores = 0;

/// One line each, with what to change. `cores`: that this machine's workers share.
std::vector<std::string> advice_on(const Options& options, const WorkerEnvironment& environment,
                                   const TrainPlan& plan, int cores);

}  // namespace ddprun::trainer
