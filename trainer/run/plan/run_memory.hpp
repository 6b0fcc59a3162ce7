// What memory a run is going to take, of how much, and its refusal before any of it is taken.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "trainer/compute/graph_executor.hpp"
#include "trainer/data/load.hpp"
#include "trainer/optim/optimizer.hpp"
#include "trainer/run/plan/gpus.hpp"
#include "trainer/run/plan/plan.hpp"

namespace ddprun::trainer {

/// In bytes. What cannot be read is 0: unknown, or no limit.
struct MachineMemory {
  std::uint64_t most = 0;           ///< RAM and swap, or the cgroup's limit if that is less
  bool is_cgroup = false;           ///< a cgroup's limit is what counts
  std::uint64_t address_space = 0;  ///< this process's limit (ulimit -v)
};
/// `root` stands before all paths, for tests.
MachineMemory machine_memory(const std::filesystem::path& root = "/");

/// What one worker is going to take, in bytes.
struct RunMemory {
  std::uint64_t data = 0;     ///< both data sets, and samples that are decoded ahead
  std::uint64_t arena = 0;    ///< one value for each parameter
  int arenas = 0;             ///< parameters, gradients and their partial sums, moments
  int copies = 0;             ///< further ones in the host's memory, for checkpoints
  std::uint64_t lane = 0;     ///< activations and their gradients, of one lane
  std::uint64_t samples = 0;  ///< of a lane, on their way from the host's memory
  int lanes = 1;
  std::uint64_t others = 0;  ///< rounded weights, outputs of replicas, what sums over GPUs receive
  std::uint64_t stored = 0;  ///< data sets that stay on a GPU, as far as there is room
  int batch = 1;             ///< b, which can be smaller if it is not 1

  [[nodiscard]] std::uint64_t total() const;
  /// Where a GPU trains: what must fit into its memory.
  [[nodiscard]] RunMemory on_gpu() const;
  /// Where a GPU trains: what is planned in the host's memory.
  [[nodiscard]] RunMemory beside_gpu() const;
};

struct MemoryQuestion {
  std::uint64_t data = 0;
  GraphExecutor::Settings executor;
  OptimizerConfig optimizer;
  std::vector<int> train_batches = {1};  ///< samples of a shard, in all steps of an epoch
  int width = 0;                         ///< tokens of the widest shard; of images 0
  ImageShape stored{.height = 0, .width = 0, .channels = 0};  ///< pictures as their set has them
  int shards = 1;                                             ///< V
  ShardRun run;                                               ///< what this worker computes
  SumOrder order = SumOrder::tree;
  int lanes = 1;
  int replicas = 0;         ///< of --parallel=dp, each with a lane; 0: ddp
  bool has_copies = false;  ///< of rank 0, where a checkpoint is written or read
};
/// Makes the operations, to ask them what they want, but allocates nothing.
RunMemory planned_memory(const Graph& graph, Device& device, const MemoryQuestion& question);

/// Why this can never fit beside the other `workers` of the machine, which have no copies; empty:
/// it may. `what`: "memory", or what of it is known so far.
std::string why_too_large(const RunMemory& need, int workers, const MachineMemory& there,
                          const char* what = "memory");
/// Why this can never fit into a GPU that `workers` have; empty: it may.
std::string why_too_large(const RunMemory& need, int workers, const cuda::GpuFacts& gpu);

/// After `what` was refused memory: "out of memory in training". `planned`: of this memory; nothing
/// in it: the data sets were not loaded yet.
std::string out_of_memory_text(const std::string& what, const RunMemory& planned,
                               const MachineMemory& there = {});

struct MemoryParts {
  const Options& options;
  const WorkerEnvironment& environment;
  const Graph& graph;
  const TrainAndTest& sets;
  const ChosenDevice& chosen;
  MachineMemory there;  ///< as it was before this worker loaded its data
  /// What is known of RunMemory::lane, by V: to learn it takes all operations of the model.
  std::map<int, std::uint64_t>& lanes;
};
/// What this worker is going to take, but for data sets that stay on a GPU. Throws DataError where
/// that can never fit. `reads_checkpoint`: rank 0 goes on from one.
RunMemory checked_memory(const MemoryParts& parts, const TrainPlan& plan, bool reads_checkpoint);

}  // namespace ddprun::trainer
