// Steps of small models on an emulated GPU as train does them: shards, buckets, update, with the
// work captured or not.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/emulated_gpu/emulated_gpu.hpp"
#include "tests/unit/trainer/cuda/model_steps.hpp"
#include "trainer/comm/reducer.hpp"

namespace ddprun::trainer::test {

inline constexpr std::size_t kBucketsMost = 5;

struct StepsWanted {
  bool captures = true;
  int shards = 2;  ///< V
  Precision precision = Precision::fp32;
  int widths = 1;        ///< of texts: so many, three steps each by turns
  int overflow_at = -1;  ///< step with gradients of inf, of fp16
};

/// What a rank comes to.
struct StepsDone {
  std::vector<float> weights;
  Counters counters;
  std::uint64_t skipped = 0;
  std::string failure;            ///< of capture
  std::uint64_t calls_first = 0;  ///< of the host, in the first step
  std::uint64_t calls_last = 0;   ///< in the one before the last, which has a smaller batch
  std::size_t graphs = 0;

  friend bool operator==(const StepsDone& a, const StepsDone& b) {
    return a.weights == b.weights && a.counters == b.counters && a.skipped == b.skipped;
  }
};

/// A rank's part of `data`'s steps: its shards of the same samples, so that they differ by their
/// masks of dropout alone.
inline StepsDone run_steps(EmulatedGpu& gpu, Device& device, Communicator& communicator,
                           const Shards& data, const StepsWanted& wanted) {
  const Graph& graph = data.graph;
  Capture capture(device, wanted.captures);
  RepeatedWork update;
  Learner learner(graph, device,
                  {.optimizer = data.optimizer,
                   .scaler = {.enabled = wanted.precision == Precision::fp16},
                   .precision = wanted.precision,
                   .shards = wanted.shards});
  std::vector<float> weights(graph.arena_size());
  initialize(graph.parameters(), weights, 3);
  learner.copy_in(0, weights);
  const std::size_t bytes = graph.arena_size() * sizeof(float);
  Reducer reducer(communicator, device, wanted.shards, graph.arena_size(),
                  {.bytes = bytes / 3, .first_bytes = bytes / 8, .last_bytes = bytes / 8});
  if (reducer.buckets().size() > kBucketsMost) throw std::logic_error("too many buckets");
  std::vector<std::size_t> cuts;
  for (const Range& bucket : reducer.buckets()) cuts.push_back(bucket.end);
  GraphExecutor executor(
      graph, device,
      {.batch = kTrained, .precision = wanted.precision, .capture = &capture, .cuts = cuts});
  const DeviceMemory counters = device.allocate(sizeof(Counters));
  const Counters none;
  device.copy_in(std::as_bytes(std::span(&none, 1)), counters.data());
  StepState infinite;
  infinite.scaler.scale = std::numeric_limits<float>::infinity();
  const DeviceMemory overflowing = device.allocate(sizeof infinite);
  device.copy_in(std::as_bytes(std::span(&infinite, 1)), overflowing.data());

  StepsDone done;
  const ShardRun run = shard_run(wanted.shards, communicator.world_size(), communicator.rank());
  for (int step = 0; step < data.steps; ++step) {
    const std::uint64_t before = gpu.calls();
    Batch batch = data.batch(step);
    std::vector<std::int32_t> wide;
    if (wanted.widths > 1) {
      batch.width = kLengthUnit * (1 + step / 3 % wanted.widths);
      wide.assign(batch.lengths.size() * static_cast<std::size_t>(batch.width), 7);
      batch.tokens = wide;
    }
    learner.set_learning_rate(data.learning_rate);
    reducer.begin_step();
    for (int shard = run.first; shard < run.first + run.count; ++shard) {
      const bool overflows = step == wanted.overflow_at && shard == 0;
      executor.compute(
          batch, learner.weights(),
          {.seed = 5,
           .state = overflows ? overflowing.as<StepState>().data() : learner.state(),
           .shard = shard,
           .shards = wanted.shards},
          counters.as<Counters>().front(), [&] { return reducer.begin_shard(shard); },
          [&](std::size_t end) { reducer.final_up_to(shard, end); });
    }
    const CommResult summed = reducer.finish_step(Clock::now() + std::chrono::seconds(20));
    if (!summed.ok()) throw std::runtime_error(summed.detail);
    update.run(capture, [&] {
      learner.begin_update(reducer.gradients());
      learner.update(0, graph.arena_size(), reducer.gradients());
      learner.finish_update();
    });
    const std::uint64_t calls = gpu.calls() - before;
    if (step == 0) done.calls_first = calls;
    if (step + 2 == data.steps) done.calls_last = calls;
    if (const std::string why = capture.take_failure(); !why.empty()) done.failure = why;
  }
  // All ranks are done, or a failed one is known, before memory is freed.
  const CommResult met = communicator.barrier(Clock::now() + std::chrono::seconds(20));
  if (!met.ok()) throw std::runtime_error(met.detail);
  device.copy_out(counters.data(), std::as_writable_bytes(std::span(&done.counters, 1)));
  done.weights.resize(graph.arena_size());
  learner.copy_out(0, done.weights);
  done.skipped = learner.step_state().skipped;
  done.graphs = gpu.graphs();
  return done;
}

}  // namespace ddprun::trainer::test
