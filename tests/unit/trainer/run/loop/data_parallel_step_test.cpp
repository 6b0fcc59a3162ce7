// Steps of several replicas in one process: statistics, memory, the samples that are named.
#include "trainer/run/loop/data_parallel_step.hpp"

#include <catch2/catch.hpp>
#include <numeric>
#include <utility>

#include "tests/unit/trainer/host/host_executor.hpp"
#include "trainer/comm/make_communicator.hpp"
#include "trainer/compute/initialize.hpp"
#include "trainer/data/shapes.hpp"
#include "trainer/model/model.hpp"
#include "trainer/run/plan/run_memory.hpp"

namespace ddprun::trainer {
namespace {

constexpr int kOfReplica = 4;
constexpr ImageShape kPixels{8, 8, 1};

/// A run of one worker over a set of pictures.
struct ReplicaRun {
  ReplicaRun(const DataSet& pictures, ModelName model, int replicas, Options wanted = {})
      : set(pictures), options(std::move(wanted)) {
    options.model.name = model;
    options.batches.batch = kOfReplica;
    options.batches.shards = options.batches.shards.value_or(2);
    if (replicas > 0) {
      options.device.parallel = Parallel::dp;
      options.device.replicas = replicas;
    }
    plan = make_plan(options, {}, facts_of(set, set), std::nullopt);
    graph.emplace(make_graph({.model = model, .shape = kPixels, .classes = set.classes()}));
    learner.emplace(*graph, *device,
                    Learner::Settings{.optimizer = optimizer_config(options),
                                      .scaler = plan.scaler,
                                      .precision = options.precision.format,
                                      .shards = statistic_shards(plan)});
    std::vector<float> parameters(graph->arena_size());
    initialize(graph->parameters(), parameters, 1);
    learner->copy_in(0, parameters);
    communicator.emplace(device->allocate(graph->arena_size() * sizeof(float)));
    lanes.emplace(choose_lanes(options, {}, 1, plan.shards));
    order.emplace(set.size(), plan.shards, plan.batch, options.seed);
    step = make_training_step({.options = options,
                               .plan = plan,
                               .preparation = preparation,
                               .graph = *graph,
                               .device = *device,
                               .lanes = *lanes,
                               .communicator = *communicator,
                               .learner = *learner});
  }

  [[nodiscard]] StepInputs inputs(std::size_t block) const {
    return {.order = *order,
            .step = block,
            .first_place = block * static_cast<std::size_t>(plan.shards * kOfReplica),
            .weights = learner->weights(),
            .first_shard = learner->state(),
            .others = learner->state()};
  }
  void train(std::size_t block) {
    learner->set_learning_rate(0.01F);
    step->compute(samples, inputs(block));
    REQUIRE(step->sum(Clock::now() + std::chrono::seconds(10)).ok());
    step->update();
  }
  [[nodiscard]] std::vector<float> parameters() const {
    std::vector<float> values(graph->arena_size());
    learner->copy_out(0, values);
    return values;
  }

  const DataSet& set;
  Options options;
  TrainPlan plan;
  std::unique_ptr<Device> device = make_host_device();
  Preparation preparation{{}, set};
  std::optional<Graph> graph;
  std::optional<Learner> learner;
  std::optional<LocalCommunicator> communicator;
  std::optional<Lanes> lanes;
  std::optional<EpochOrder> order;
  SampleReader samples{set, {}};
  std::unique_ptr<TrainingStep> step;
};

ByteImageSet few_shapes(std::size_t count) {
  return {"shapes", make_shapes(3, 0, count, kPixels), shapes_normalization(1)};
}

TEST_CASE("running statistics are mixed with those of replica 0's shard alone") {
  const ByteImageSet set = few_shapes(16);
  ReplicaRun dp(set, ModelName::resnet18, 2);
  // Where its gradients would be, a shard has its mean and variance.
  const std::vector<float> before = dp.parameters();
  ComputeLane lane(*dp.graph, *dp.device, dp.preparation,
                   {.executor = {.batch = kOfReplica}, .shards = 2});
  lane.executor().train(lane.shard(dp.samples, dp.inputs(0), 0, 0), dp.learner->weights(),
                        {.state = dp.learner->state(), .shard = 0, .shards = 2});
  lane.executor().loss(lane.counters());
  std::vector<float> of_shard(dp.graph->arena_size());
  lane.executor().backward({.floats = of_shard}, [](std::size_t) {});

  ReplicaRun ddp(set, ModelName::resnet18, 0);
  dp.train(0);
  ddp.train(0);
  const std::vector<float> after = dp.parameters();
  const std::vector<float> of_all = ddp.parameters();
  int others = 0;
  for (const Parameter& one : dp.graph->parameters()) {
    INFO(one.name);
    for (std::size_t i = one.offset; i < one.offset + one.count; ++i) {
      if (one.role == ParameterRole::statistic) {
        REQUIRE(after[i] == 0.9F * before[i] + 0.1F * of_shard[i]);
        others += after[i] != of_all[i] ? 1 : 0;
      } else {
        REQUIRE(after[i] == of_all[i]);
      }
    }
  }
  CHECK(others > 0);
}

TEST_CASE("replica 0 holds moments, arriving gradients and outputs beside what each has") {
  const ByteImageSet set = few_shapes(16);
  const auto precision = GENERATE(Precision::fp32, Precision::bf16, Precision::fp16);
  const int shards = GENERATE(2, 4);  // 4: each replica accumulates two
  INFO(to_string(precision) << ", V=" << shards);
  Options options;
  options.precision.format = precision;
  options.batches.shards = shards;
  ReplicaRun run(set, ModelName::lenet, 2, options);
  run.train(0);
  run.step->evaluate(run.samples, [](double) { return true; });
  Outcome outcome;
  run.step->report_to(outcome);
  REQUIRE(outcome.data_parallel.has_value());
  const std::vector<std::uint64_t>& peaks = outcome.data_parallel->peak_bytes;
  REQUIRE(peaks.size() == 2);
  CHECK(outcome.data_parallel->steps == 1);
  const std::uint64_t arena = run.graph->arena_size() * sizeof(float);
  const std::uint64_t gathered =
      GatheredLoss::bytes(*run.graph, {.pieces = 2, .batch = kOfReplica, .precision = precision},
                          run.device->storage(precision));
  // Beside the momentum one arena for each level of the tree of sums.
  const std::uint64_t levels = shards == 2 ? 1 : 2;
  CHECK(peaks[0] - peaks[1] == (1 + levels) * arena + gathered + sizeof(StepState));

  // The plan of the run's memory has it all.
  const RunMemory need = planned_memory(*run.graph, *run.device,
                                        {.executor = {.batch = kOfReplica, .precision = precision},
                                         .optimizer = optimizer_config(run.options),
                                         .train_batches = {kOfReplica},
                                         .stored = kPixels,
                                         .shards = shards,
                                         .run = {0, shards},
                                         .lanes = 2,
                                         .replicas = 2});
  const std::uint64_t on_host = arena + 2 * need.samples;
  CHECK(need.others >= gathered);
  CHECK(peaks[0] + peaks[1] ==
        need.total() - on_host + 3 * sizeof(StepState) + 2 * sizeof(Counters));
}

TEST_CASE("a loss that is no number has the place of its sample, also in a short last shard") {
  ByteImages images;
  images.shape = kPixels;
  images.classes = 10;
  images.pixels.resize(20 * sample_size(images.shape));
  images.labels.resize(20);
  const auto large = static_cast<std::ptrdiff_t>(GENERATE(3, 8, 13, 19));
  std::fill_n(images.pixels.begin() + large * 64, 64, 255);
  const ByteImageSet set("large", images, {.mean = {0}, .deviation = {1e-38F}});
  // 10 samples for each shard: 4, 4 and 2.
  for (std::size_t block = 0; block < 3; ++block) {
    ReplicaRun ddp(set, ModelName::lenet, 0);
    ddp.train(block);
    const Counters counters = ddp.step->take_counters();
    CHECK(counters.count == (block < 2 ? 8 : 4));
    for (const int replicas : {1, 2}) {
      ReplicaRun dp(set, ModelName::lenet, replicas);
      dp.train(block);
      CHECK(dp.step->take_counters() == counters);
    }
  }
}

Parameter parameter(std::size_t offset, std::size_t count, bool is_statistic) {
  Parameter one;
  one.offset = offset;
  one.count = count;
  one.role = is_statistic ? ParameterRole::statistic : ParameterRole::weight;
  return one;
}

TEST_CASE("statistics side by side are one range, and weights end it") {
  const std::vector<Parameter> parameters{parameter(0, 10, false), parameter(16, 3, true),
                                          parameter(32, 3, true), parameter(48, 3, false),
                                          parameter(64, 5, true)};
  std::vector<std::pair<std::size_t, std::size_t>> ranges;
  for (const Range& one : statistic_ranges(parameters)) ranges.emplace_back(one.begin, one.end);
  CHECK(ranges == std::vector<std::pair<std::size_t, std::size_t>>{{16, 35}, {64, 69}});
  CHECK(statistic_ranges({}).empty());
}

}  // namespace
}  // namespace ddprun::trainer
