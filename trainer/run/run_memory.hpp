// What memory a run is going to need, compared with what there is, before any of it is taken.
#pragma once

#include <algorithm>
#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include "trainer/comm/shard_tree.hpp"
#include "trainer/compute/graph_executor.hpp"
#include "trainer/optim/optimizer.hpp"
#include "trainer/run/machine_memory.hpp"

namespace ddprun::trainer {

/// What a user can change about it.
struct MemoryChoices {
  int batch = 1;                  ///< b
  bool has_texts = false;         ///< else images
  bool is_generated = false;      ///< options set the size of samples
  bool has_data_memory = false;   ///< --data-memory
  bool has_smaller_size = false;  ///< --size
  bool has_two_moments = false;   ///< of the optimizer; another one has fewer
  bool has_half_values = false;   ///< --precision bf16 or fp16
  bool has_replicas = false;      ///< --replicas above 1
};

/// Of one worker, in bytes.
struct RunMemory {
  std::uint64_t data = 0;   ///< both data sets, and samples that are decoded ahead
  std::uint64_t arena = 0;  ///< one value for each parameter
  int arenas = 0;           ///< parameters, gradients and their partial sums, moments, copies
  std::uint64_t lane = 0;   ///< the plan of one lane: activations and their gradients
  int lanes = 1;
  std::uint64_t rounded_weights = 0;  ///< what layers of half precision read, of all replicas
  std::uint64_t buffers = 0;          ///< a tensor on its way to a checkpoint
  std::uint64_t gathered = 0;         ///< outputs of replicas, and what the loss takes
  // Of these, in the host's memory on any device.
  int host_arenas = 0;          ///< the copies
  std::uint64_t host_lane = 0;  ///< samples on their way to the device
  // Beside these, in a GPU's memory alone.
  std::uint64_t inputs = 0;    ///< the two buffers in which samples arrive
  std::uint64_t exchange = 0;  ///< what sums over several GPUs receive
  std::uint64_t samples = 0;   ///< data sets that stay there (StoredSets), as far as there is room
  std::uint64_t graphs = 0;  ///< CUDA graphs, about; the run goes on without where they do not fit
  // Until training begins, which then takes the place of what is no longer needed.
  int start_arenas = 0;  ///< parameters, moments, both as read of files, gradients
  std::uint64_t start_rounded_weights = 0;
  std::uint64_t start_buffers = 0;  ///< tensors as a file has them
  MemoryChoices choices = {};

  [[nodiscard]] std::uint64_t training() const {
    return arena * static_cast<std::uint64_t>(arenas) + lane * static_cast<std::uint64_t>(lanes) +
           rounded_weights + buffers + gathered;
  }
  [[nodiscard]] std::uint64_t start() const {
    return arena * static_cast<std::uint64_t>(start_arenas) + start_rounded_weights + start_buffers;
  }
  [[nodiscard]] std::uint64_t total() const { return data + std::max(training(), start()); }
};

struct MemoryQuestion {
  std::uint64_t data = 0;  ///< bytes of both sets, and of samples that are decoded ahead
  GraphExecutor::Settings executor;
  OptimizerConfig optimizer;
  /// Samples of a shard: of the largest one that the data has, and of the smaller ones at the end
  /// of an epoch, if there are any.
  std::vector<int> train_batches{1};
  int width = 0;  ///< tokens of the widest shard; of images 0
  ImageShape stored{.height = 0, .width = 0, .channels = 0};  ///< pictures as their set has them
  int shards = 1;                                             ///< V
  ShardRun run;                                               ///< what this worker computes
  SumOrder order = SumOrder::tree;
  int lanes = 1;
  int replicas = 0;             ///< of --parallel=dp, each with a lane; 0: ddp
  bool counts_classes = false;  ///< --eval of labels: each lane has the logits of a batch
  // Of rank 0 alone.
  bool keeps_checkpoints = false;  ///< copies of parameters and moments
  bool reads_weights = false;      ///< --init-from
  bool reads_checkpoint = false;
  MemoryChoices choices = {};
};
/// The same of a worker that is not rank 0.
MemoryQuestion of_other_worker(MemoryQuestion question);

/// At least this much: a pure function of graph and batch, quick at any size.
RunMemory least_memory(const Graph& graph, const MemoryQuestion& question, Storage storage);
/// With what the operations want beside their tensors: makes them, but allocates none of it.
RunMemory planned_memory(const Graph& graph, Device& device, const MemoryQuestion& question);

struct MemoryVerdict {
  std::string refusal;  ///< the run can never fit; empty: it can
  std::string warning;  ///< it fits only if others give memory back; empty: it fits
};
/// `workers`: on this machine; the others need `others` bytes each. Both texts have the bytes and
/// the remedy.
MemoryVerdict judge_memory(const RunMemory& need, std::uint64_t others, int workers,
                           const MachineMemory& there);

/// Why data sets of so many bytes for each of `workers` never fit; empty: they may.
std::string why_data_too_large(std::uint64_t bytes, int workers, const MachineMemory& there,
                               const MemoryChoices& choices);

/// After the host refused memory. `when`: "in training". `planned` is empty where the plan is not
/// known.
std::string out_of_memory_text(const RunMemory& planned, const std::bad_alloc& refused,
                               const std::string& when, const MachineMemory& there);

/// "1.25 GB", in powers of 1000.
std::string bytes_text(std::uint64_t bytes);

}  // namespace ddprun::trainer
