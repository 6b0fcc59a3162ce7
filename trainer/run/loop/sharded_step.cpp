// --parallel=ddp: each rank computes its shards with weights of its own, and the ranks add up their
// gradients while backward goes on.
#include <fmt/format.h>

#include <algorithm>

#include "trainer/comm/reducer.hpp"
#include "trainer/compute/captured_work.hpp"
#include "trainer/run/loop/data_parallel_step.hpp"
#include "trainer/run/loop/shard_computer.hpp"
#include "trainer/run/loop/training_step.hpp"

namespace ddprun::trainer {
namespace {

/// Arenas below this are updated by one lane: waking others would take longer.
constexpr std::size_t kFloatsPerLane = std::size_t{1} << 17;

/// Where a sum may begin.
std::vector<std::size_t> ends_of(const std::vector<Range>& buckets) {
  std::vector<std::size_t> ends;
  for (const Range& bucket : buckets) ends.push_back(bucket.end);
  return ends;
}

BucketSizes bucket_sizes(const Options& options) {
  BucketSizes sizes;
  sizes.bytes = static_cast<std::size_t>(options.comm.bucket_mb * 1024 * 1024);
  sizes.first_bytes = std::min(sizes.first_bytes, sizes.bytes);
  sizes.last_bytes = std::min(sizes.last_bytes, sizes.bytes);
  return sizes;
}

class ShardedStep final : public TrainingStep {
 public:
  explicit ShardedStep(const StepParts& parts);

  void compute(SampleReader& samples, const StepInputs& inputs) override;
  CommResult sum(Clock::time_point deadline) override;
  void update() override;
  [[nodiscard]] std::optional<Clock::duration> exposed() const override {
    return reducer_.exposed();
  }
  void evaluate(SampleReader& samples,
                const std::function<bool(double share)>& on_progress) override;
  Counters take_counters() override { return computer_.take_counters(); }
  /// Each rank for itself: another GPU may have captured all.
  std::vector<std::string> take_warnings() override;

 private:
  StepParts parts_;
  ShardRun run_;
  Capture capture_;
  RepeatedWork update_;  // before what has memory, which waits for the device when it is freed
  Reducer reducer_;
  ShardComputer computer_;
};

}  // namespace

ShardedStep::ShardedStep(const StepParts& parts)
    : parts_(parts),
      run_(
          shard_run(parts.plan.shards, parts.communicator.world_size(), parts.communicator.rank())),
      capture_(parts.device, parts.options.device.cuda_graph == CudaGraph::automatic),
      reducer_(parts.communicator, parts.device, parts.plan.shards, parts.graph.arena_size(),
               bucket_sizes(parts.options)),
      computer_(parts.graph, parts.device, parts.lanes, parts.preparation,
                {.executor = {.batch = parts.plan.batch,
                              .precision = parts.options.precision.format,
                              .threads = parts.options.device.threads_per_shard,
                              .capture = &capture_,
                              .cuts = ends_of(reducer_.buckets())},
                 .seed = parts.options.seed,
                 .shards = parts.plan.shards,
                 .stored = parts.stored}) {}

void ShardedStep::compute(SampleReader& samples, const StepInputs& inputs) {
  reducer_.begin_step();
  computer_.train(samples, inputs, run_, reducer_);
}

CommResult ShardedStep::sum(Clock::time_point deadline) { return reducer_.finish_step(deadline); }

void ShardedStep::update() {
  const std::span<const float> gradients = reducer_.gradients();
  Learner& learner = parts_.learner;
  const std::size_t size = gradients.size();
  const auto lanes = static_cast<std::size_t>(parts_.lanes.count());
  if (lanes == 1 || size < lanes * kFloatsPerLane) {
    update_.run(capture_, [&] {
      learner.begin_update(gradients);
      learner.update(0, size, gradients);
      learner.finish_update();
    });
    return;
  }
  learner.begin_update(gradients);
  const auto work = [&](int lane) {
    const auto index = static_cast<std::size_t>(lane);
    learner.update(size * index / lanes, size * (index + 1) / lanes, gradients);
  };
  parts_.lanes.run(std::ref(work));
  learner.finish_update();
}

void ShardedStep::evaluate(SampleReader& samples,
                           const std::function<bool(double share)>& on_progress) {
  computer_.evaluate(samples, parts_.communicator.rank(), parts_.communicator.world_size(),
                     parts_.learner.weights(), on_progress);
}

std::vector<std::string> ShardedStep::take_warnings() {
  std::vector<std::string> lines;
  const std::string why = capture_.take_failure();
  if (!why.empty())
    lines.push_back(fmt::format("--cuda-graph auto: going on without CUDA graphs, as {}", why));
  if (capture_.take_limit())
    lines.push_back(
        fmt::format("--cuda-graph auto: shards and evaluations of further numbers of samples and "
                    "widths of texts "
                    "are computed without CUDA graphs, as at most {} kinds and {} kernels are kept",
                    GraphExecutor::kRepeatedMax, Capture::kNodesMost));
  return lines;
}

std::unique_ptr<TrainingStep> make_training_step(const StepParts& parts) {
  if (parts.options.device.parallel == Parallel::dp)
    return std::make_unique<DataParallelStep>(parts);
  return std::make_unique<ShardedStep>(parts);
}

}  // namespace ddprun::trainer
