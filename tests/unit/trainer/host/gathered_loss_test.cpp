// A loss that is computed apart from the executors of its logits.
#include "trainer/compute/gathered_loss.hpp"

#include <catch2/catch.hpp>
#include <memory>

#include "tests/unit/trainer/host/host_executor.hpp"
#include "tests/unit/trainer/host/samples.hpp"
#include "trainer/compute/initialize.hpp"
#include "trainer/model/model.hpp"

namespace ddprun::trainer {
namespace {

constexpr int kBatch = 3;  // at most
constexpr int kShards = 2;

struct Gradients {
  std::vector<std::vector<float>> of_shards;
  Counters counters;
};

/// Shards of 3 samples, then of 2; `gathers`: with their losses in a GatheredLoss.
Gradients train(const Graph& graph, ImageShape shape, Precision precision, int samples,
                bool gathers) {
  Device& device = test::rounding_host();
  std::vector<float> parameters(graph.arena_size());
  initialize(graph.parameters(), parameters, 1);
  std::vector<float> stored(graph.arena_size());
  device.store(device.storage(precision), parameters, stored.data());
  const Weights weights{parameters.data(), stored.data()};
  StepState state;
  state.scaler.scale = 8;
  state.updates = 5;
  Gradients all;
  const auto executor = [&] {
    return std::make_unique<GraphExecutor>(
        graph, device, GraphExecutor::Settings{.batch = kBatch, .precision = precision});
  };
  const auto id = [&](int shard) {
    return ShardId{.seed = 3, .state = &state, .shard = shard, .shards = kShards};
  };
  std::vector<test::Samples> sets;
  std::vector<std::vector<float>> masks;
  std::vector<Batch> batches;
  for (std::uint32_t shard = 0; shard < kShards; ++shard) {
    sets.push_back(test::noise(samples, shape, std::max(1, graph.classes()), shard));
    masks.emplace_back();
    if (graph.target() == Target::mask) {
      masks.back().resize(static_cast<std::size_t>(samples) * graph.logits().count());
      for (std::size_t i = 0; i < masks.back().size(); i += 3) masks.back()[i] = 1;
    }
  }
  for (std::size_t shard = 0; shard < kShards; ++shard) {
    Batch batch{.images = sets[shard].images};
    if (graph.target() == Target::mask) {
      batch.masks = masks[shard];
    } else {
      batch.labels = sets[shard].labels;
    }
    batches.push_back(batch);
    all.of_shards.emplace_back(graph.arena_size());
  }
  if (!gathers) {
    const auto one = executor();
    for (std::size_t shard = 0; shard < kShards; ++shard) {
      one->train(batches[shard], weights, id(static_cast<int>(shard)));
      one->loss(all.counters);
      one->backward({.floats = all.of_shards[shard]}, [](std::size_t) {});
    }
    return all;
  }
  GatheredLoss loss(graph, device, {.pieces = kShards, .batch = kBatch, .precision = precision});
  std::vector<std::unique_ptr<GraphExecutor>> executors;
  for (int shard = 0; shard < kShards; ++shard) {
    executors.push_back(executor());
    const auto index = static_cast<std::size_t>(shard);
    executors.back()->begin(batches[index], weights, id(shard));
    executors.back()->forward();
    const std::span<const std::byte> logits = executors.back()->logits();
    CHECK(logits.size() == loss.logits(shard, samples).size());
    device.copy_in(logits, loss.logits(shard, samples).data());
  }
  for (int shard = 0; shard < kShards; ++shard)
    loss.compute(shard, batches[static_cast<std::size_t>(shard)], id(shard), all.counters);
  for (int shard = 0; shard < kShards; ++shard) {
    GraphExecutor& one = *executors[static_cast<std::size_t>(shard)];
    device.copy_in(loss.gradient(shard, samples), one.logits_gradient().data());
    std::size_t final = 0;
    one.backward_from_logits({.floats = all.of_shards[static_cast<std::size_t>(shard)]},
                             [&](std::size_t end) { final = end; });
    CHECK(final == graph.arena_size());
  }
  return all;
}

TEST_CASE("gradients and counts have the bits of a loss within the executor") {
  struct Case {
    ModelName model;
    ImageShape shape;
    Precision precision;
  };
  const auto one = GENERATE(values<Case>({{ModelName::lenet, {12, 12, 1}, Precision::fp32},
                                          {ModelName::lenet, {12, 12, 1}, Precision::fp16},
                                          {ModelName::lenet, {12, 12, 1}, Precision::bf16},
                                          {ModelName::unet16, {32, 32, 1}, Precision::fp16}}));
  const int samples = GENERATE(3, 2);
  const Graph graph = make_graph({.model = one.model, .shape = one.shape, .classes = 4});
  INFO("model " << static_cast<int>(one.model) << ", " << samples << " samples");
  const Gradients expected = train(graph, one.shape, one.precision, samples, false);
  const Gradients gathered = train(graph, one.shape, one.precision, samples, true);
  CHECK(expected.counters.count == kShards * samples);
  CHECK(gathered.counters == expected.counters);
  for (std::size_t shard = 0; shard < kShards; ++shard)
    CHECK((gathered.of_shards[shard] == expected.of_shards[shard]));
  CHECK((expected.of_shards[0] != expected.of_shards[1]));
}

}  // namespace
}  // namespace ddprun::trainer
