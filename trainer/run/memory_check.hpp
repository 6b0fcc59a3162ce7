// Refuses a run that cannot fit in memory, before it takes any: what the machine has, beside what
// the options ask for.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trainer/data/load.hpp"
#include "trainer/model/graph.hpp"
#include "trainer/run/environment.hpp"
#include "trainer/run/gpus.hpp"
#include "trainer/run/options.hpp"
#include "trainer/run/plan.hpp"
#include "trainer/run/report.hpp"
#include "trainer/run/run_memory.hpp"
#include "trainer/run/stored_sets.hpp"

namespace ddprun::trainer {

/// Cores that this process may use.
int usable_cores();

/// On a GPU its memory counts, and what the run takes of the host's beside its data does not. What
/// it is given outlives it.
class MemoryCheck {
 public:
  struct Parts {
    const Options& options;
    const WorkerEnvironment& environment;
    const Graph& graph;
    const TrainAndTest& sets;
    const ChosenDevice& chosen;
    MachineMemory there;  ///< as it was before this worker loaded its data
  };
  explicit MemoryCheck(const Parts& parts) : parts_(parts) {}

  // Rank 0, before it reads a file. Throw DataError where the run can never fit.

  /// Before --init-from. `states`: the checkpoints of the directory. Which of them the run goes on
  /// from depends on the weights, so it may get V of any, or begin anew.
  void before_weights(const DataFacts& data, const std::vector<TrainingState>& states);
  /// Before the checkpoint that the run goes on from.
  void before_checkpoint(const TrainPlan& plan);

  /// What this worker is going to allocate, but for data sets that stay on a GPU. Throws DataError
  /// where that can never fit; warns where it may not. `reads_checkpoint`: rank 0 goes on from one.
  RunMemory before_training(const TrainPlan& plan, bool reads_checkpoint, Report& report);
  /// Those that fit on the GPU beside `planned`, which is of before_training(); on the CPU none.
  [[nodiscard]] StoredSets sets_that_stay(const TrainPlan& plan, const RunMemory& planned) const;

 private:
  struct Judged {
    RunMemory need;
    MemoryVerdict verdict;
  };
  [[nodiscard]] MemoryQuestion question_of(const TrainPlan& plan, bool reads_checkpoint) const;
  [[nodiscard]] Judged judge(const MemoryQuestion& question);
  [[nodiscard]] std::uint64_t exchange_bytes(int shards) const;

  Parts parts_;
  int planned_shards_ = 0;          // V of what follows; 0: none yet
  std::uint64_t planned_lane_ = 0;  // RunMemory::lane of planned_memory()
};

}  // namespace ddprun::trainer
