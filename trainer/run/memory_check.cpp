#include "trainer/run/memory_check.hpp"

#include <sched.h>

#include <algorithm>
#include <string>
#include <thread>

#include "trainer/error.hpp"
#include "trainer/nccl/nccl_communicator.hpp"
#include "trainer/run/gpu_memory.hpp"
#include "trainer/run/memory_remedy.hpp"
#include "trainer/run/run_data.hpp"

namespace ddprun::trainer {
namespace {

/// Of texts: the tokens of the widest batch, padding included; of images 0.
int widest(const TrainAndTest& sets, const Graph& graph) {
  if (!sets.train->has_texts()) return 0;
  const int longest = std::max(sets.train->text().positions, sets.test->text().positions);
  return padded_length(longest, graph.text().positions);
}

/// Samples of a shard in the steps of an epoch that has `of_shard` for it: as EpochOrder cuts them.
std::vector<int> train_batches(std::size_t of_shard, std::size_t batch) {
  std::vector<int> sizes{static_cast<int>(std::min(of_shard, batch))};
  if (of_shard > batch && of_shard % batch != 0)
    sizes.push_back(static_cast<int>(of_shard % batch));
  return sizes;
}

}  // namespace

int usable_cores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

MemoryQuestion MemoryCheck::question_of(const TrainPlan& plan, bool reads_checkpoint) const {
  const Options& options = parts_.options;
  const WorkerEnvironment& environment = parts_.environment;
  const std::size_t samples = parts_.sets.train->size();
  const auto shards = static_cast<std::size_t>(plan.shards);
  const std::size_t of_shard = (samples + shards - 1) / shards;
  const ShardRun run = shard_run(plan.shards, environment.world_size, environment.rank);
  const bool first_rank = environment.rank == 0;
  return {.data = parts_.sets.train->bytes() + parts_.sets.test->bytes() +
                  reader_bytes(parts_.sets, reader_settings(plan, environment)),
          .executor = {.batch = plan.batch,
                       .precision = options.precision,
                       .threads = options.threads_per_shard},
          .optimizer = optimizer_config(options),
          .train_batches = train_batches(of_shard, static_cast<std::size_t>(plan.batch)),
          .width = widest(parts_.sets, parts_.graph),
          .stored = parts_.sets.train->shape(),
          .shards = plan.shards,
          .run = run,
          .order = parts_.chosen.order,
          .lanes = choose_lanes(options, environment, usable_cores(), run.count),
          .replicas = options.parallel == Parallel::dp ? plan.replicas : 0,
          .counts_classes = options.eval && parts_.graph.target() == Target::label,
          .keeps_checkpoints =
              first_rank && options.checkpoint_every.kind != CheckpointEvery::Kind::off,
          .reads_weights = first_rank && options.init_from.has_value(),
          .reads_checkpoint = first_rank && reads_checkpoint,
          .choices = memory_choices(options, plan.batch)};
}

/// By the quick lower bound first: where that does not fit, nothing is made at all.
MemoryCheck::Judged MemoryCheck::judge(const MemoryQuestion& question) {
  Device& device = *parts_.chosen.device;
  const Storage storage = device.storage(question.executor.precision);
  RunMemory need = least_memory(parts_.graph, question, storage);
  need.exchange = exchange_bytes(question.shards);
  RunMemory other = least_memory(parts_.graph, of_other_worker(question), storage);
  const auto verdict = [&] {
    if (parts_.chosen.gpu)
      return MemoryVerdict{
          .refusal = why_too_large(need, parts_.chosen.gpu->facts(), parts_.chosen.gpu_workers),
          .warning = {}};
    return judge_memory(need, other.total(), parts_.environment.local_world_size, parts_.there);
  };
  if (MemoryVerdict least = verdict(); !least.refusal.empty()) return {need, std::move(least)};
  if (planned_shards_ != question.shards) {
    planned_lane_ = planned_memory(parts_.graph, device, question).lane;
    planned_shards_ = question.shards;
  }
  need.lane = planned_lane_;
  other.lane = planned_lane_;
  return {need, verdict()};
}

/// Of the GPU, where several workers add up their gradients.
std::uint64_t MemoryCheck::exchange_bytes(int shards) const {
  if (!parts_.chosen.gpu || parts_.environment.world_size == 1) return 0;
  return nccl::gpu_bytes_of_sums({.rank = parts_.environment.rank,
                                  .world_size = parts_.environment.world_size,
                                  .shards = shards,
                                  .order = parts_.chosen.order,
                                  .arena_floats = parts_.graph.arena_size(),
                                  .on_phase = {}});
}

void MemoryCheck::before_weights(const DataFacts& data, const std::vector<TrainingState>& states) {
  std::vector<std::optional<int>> candidates{std::nullopt};
  for (const TrainingState& state : states) candidates.push_back(shards_of(state.config));
  std::string refusal;
  std::vector<int> judged;
  for (const std::optional<int> there : candidates) {
    std::optional<TrainPlan> plan;
    try {
      plan = make_plan(parts_.options, parts_.environment, data, there);
    } catch (const DataError&) {
      continue;  // the run's own plan is refused later, with its reason
    }
    if (std::find(judged.begin(), judged.end(), plan->shards) != judged.end()) continue;
    judged.push_back(plan->shards);
    MemoryVerdict verdict = judge(question_of(*plan, false)).verdict;
    if (verdict.refusal.empty()) return;
    if (refusal.empty()) refusal = std::move(verdict.refusal);
  }
  if (!refusal.empty()) throw DataError(refusal);
}

void MemoryCheck::before_checkpoint(const TrainPlan& plan) {
  const MemoryVerdict verdict = judge(question_of(plan, true)).verdict;
  if (!verdict.refusal.empty()) throw DataError(verdict.refusal);
}

RunMemory MemoryCheck::before_training(const TrainPlan& plan, bool reads_checkpoint,
                                       Report& report) {
  Judged judged = judge(question_of(plan, reads_checkpoint));
  if (!judged.verdict.refusal.empty()) throw DataError(judged.verdict.refusal);
  if (!judged.verdict.warning.empty() && parts_.environment.local_rank == 0)
    report.warning(judged.verdict.warning);
  // Without them a run still fits: they are no reason to refuse it.
  if (parts_.chosen.gpu && parts_.options.cuda_graph == CudaGraph::automatic) {
    const ShardRun run =
        shard_run(plan.shards, parts_.environment.world_size, parts_.environment.rank);
    judged.need.graphs = graph_bytes(parts_.graph, parts_.sets.train->text().positions, run.count);
  }
  return judged.need;
}

StoredSets MemoryCheck::sets_that_stay(const TrainPlan& plan, const RunMemory& planned) const {
  StoredSets sets;
  // A set that is read once is sent once either way.
  const bool reads_once = parts_.options.eval || plan.last_step <= plan.steps_per_epoch;
  if (!parts_.chosen.gpu || reads_once) return sets;
  sets.choose({parts_.sets.train.get(), parts_.sets.test.get()},
              samples_most(planned, parts_.chosen.gpu->free_memory(), parts_.chosen.gpu_workers));
  return sets;
}

}  // namespace ddprun::trainer
