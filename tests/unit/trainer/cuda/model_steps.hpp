// A few steps of small models on a device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tests/unit/trainer/host/samples.hpp"
#include "trainer/compute/device.hpp"
#include "trainer/compute/initialize.hpp"
#include "trainer/model/model.hpp"
#include "trainer/optim/learner.hpp"

namespace ddprun::trainer::test {

inline constexpr int kTrained = 4;  // samples of a shard

/// What a step trains on: images with labels or masks, or texts.
struct Shards {
  Graph graph;
  OptimizerConfig optimizer{.kind = OptimizerKind::adamw, .weight_decay = 0.01};
  float learning_rate = 0.0005F;
  int steps = 3;
  std::vector<std::uint8_t> pixels{};
  std::vector<float> tables{};
  std::vector<std::int32_t> labels{};
  std::vector<float> masks{};
  std::vector<std::int32_t> tokens{}, lengths{};

  /// The last one is smaller.
  [[nodiscard]] Batch batch(int step) const {
    const auto count = static_cast<std::size_t>(step + 1 < steps ? kTrained : kTrained - 1);
    Batch batch;
    if (graph.target() == Target::mask) {
      batch.masks = std::span(masks).first(count * graph.logits().count());
    } else {
      batch.labels = std::span(labels).first(count);
    }
    if (graph.text().positions > 0) {
      batch.width = kLengthUnit;
      batch.tokens = std::span(tokens).first(count * kLengthUnit);
      batch.lengths = std::span(lengths).first(count);
    } else {
      batch.pixels = std::span(pixels).first(count * graph.layers().front().output.count());
      batch.tables = tables;
    }
    return batch;
  }
};

inline Shards image_shards(ModelName model, ImageShape shape) {
  Shards shards{.graph =
                    make_graph({.model = model, .shape = shape, .classes = 10, .dropout = 0.2})};
  const Samples samples = squares(kTrained, shape, 10, 1);
  shards.labels = samples.labels;
  for (const float value : samples.images)
    shards.pixels.push_back(static_cast<std::uint8_t>((value + 1) * 94));  // below 2.7
  for (int channel = 0; channel < shape.channels; ++channel)
    for (int byte = 0; byte < 256; ++byte)
      shards.tables.push_back(static_cast<float>(byte) / (94.0F + static_cast<float>(channel)) - 1);
  for (std::size_t i = 0; i < samples.images.size(); ++i)
    shards.masks.push_back(i % 3 == 0 ? 1.0F : 0.0F);
  return shards;
}

inline Shards text_shards() {
  Shards shards{
      .graph = make_graph(
          {.model = ModelName::textclf, .classes = 10, .dropout = 0.1, .vocabulary = 40})};
  shards.labels = {3, 1, 4, 1};
  shards.lengths = {kLengthUnit, 3, 17, 9};
  for (int i = 0; i < kTrained * kLengthUnit; ++i) shards.tokens.push_back(i * i % 40);
  return shards;
}

struct Trained {
  std::vector<float> weights;
  std::vector<double> losses;  ///< of each step
  std::uint64_t skipped = 0;
};

inline Trained train(Device& device, const Shards& shards, Precision precision) {
  const Graph& graph = shards.graph;
  Learner learner(graph, device,
                  {.optimizer = shards.optimizer,
                   .scaler = {.enabled = precision == Precision::fp16},
                   .precision = precision});
  std::vector<float> weights(graph.arena_size());
  initialize(graph.parameters(), weights, 3);
  learner.copy_in(0, weights);
  GraphExecutor executor(graph, device, {.batch = kTrained, .precision = precision});
  const DeviceMemory gradients = device.allocate(graph.arena_size() * sizeof(float));
  const DeviceMemory counters = device.allocate(sizeof(Counters));
  Trained trained;
  for (int step = 0; step < shards.steps; ++step) {
    learner.set_learning_rate(shards.learning_rate);
    const Counters none;
    device.copy_in(std::as_bytes(std::span(&none, 1)), counters.data());
    executor.train(shards.batch(step), learner.weights(), {.seed = 5, .state = learner.state()});
    executor.loss(counters.as<Counters>().front());
    executor.backward({.floats = gradients.as<float>()}, [](std::size_t) {});
    learner.begin_update(gradients.as<float>());
    learner.update(0, graph.arena_size(), gradients.as<float>());
    learner.finish_update();
    Counters counted;
    device.copy_out(counters.data(), std::as_writable_bytes(std::span(&counted, 1)));
    trained.losses.push_back(mean_loss(counted));
  }
  trained.weights.resize(graph.arena_size());
  learner.copy_out(0, trained.weights);
  trained.skipped = learner.step_state().skipped;
  return trained;
}

}  // namespace ddprun::trainer::test
