// Whole steps of a model on the emulated GPU, beside the same steps on the CPU.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tests/emulated_gpu/emulated_gpu.hpp"
#include "tests/unit/trainer/host/samples.hpp"
#include "trainer/compute/initialize.hpp"
#include "trainer/cuda/cuda_device.hpp"
#include "trainer/host/host_device.hpp"
#include "trainer/model/model.hpp"
#include "trainer/optim/learner.hpp"

namespace ddprun::trainer {
namespace {

constexpr int kTrained = 4;  // samples of a shard

/// What a step trains on: images with labels or masks, or texts.
struct Shards {
  Graph graph;
  OptimizerConfig optimizer{.kind = OptimizerKind::adamw, .weight_decay = 0.01};
  float learning_rate = 0.0005F;
  int steps = 3;
  test::Samples images{};
  std::vector<float> masks{};
  std::vector<std::int32_t> tokens{}, lengths{};

  /// The last one is smaller.
  [[nodiscard]] Batch batch(int step) const {
    const auto count = static_cast<std::size_t>(step + 1 < steps ? kTrained : kTrained - 1);
    Batch batch;
    if (graph.target() == Target::mask) {
      batch.masks = std::span(masks).first(count * graph.logits().count());
    } else {
      batch.labels = std::span(images.labels).first(count);
    }
    if (graph.text().positions > 0) {
      batch.width = kLengthUnit;
      batch.tokens = std::span(tokens).first(count * kLengthUnit);
      batch.lengths = std::span(lengths).first(count);
    } else {
      batch.images = std::span(images.images).first(count * graph.layers().front().output.count());
    }
    return batch;
  }
};

Shards image_shards(ModelName model, ImageShape shape) {
  Shards shards{.graph =
                    make_graph({.model = model, .shape = shape, .classes = 10, .dropout = 0.2})};
  shards.images = test::squares(kTrained, shape, 10, 1);
  for (std::size_t i = 0; i < shards.images.images.size(); ++i)
    shards.masks.push_back(i % 3 == 0 ? 1.0F : 0.0F);
  return shards;
}

Shards text_shards() {
  Shards shards{
      .graph = make_graph(
          {.model = ModelName::textclf, .classes = 10, .dropout = 0.1, .vocabulary = 40})};
  shards.images.labels = {3, 1, 4, 1};
  shards.lengths = {kLengthUnit, 3, 17, 9};
  for (int i = 0; i < kTrained * kLengthUnit; ++i) shards.tokens.push_back(i * i % 40);
  return shards;
}

struct Trained {
  std::vector<float> weights;
  std::vector<double> losses;  ///< of each step
  std::uint64_t skipped = 0;
};

Trained train(Device& device, const Shards& shards, Precision precision) {
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
    executor.backward(gradients.as<float>(), [](std::size_t) {});
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

Trained train_emulated(const Shards& shards, Precision precision, std::uint64_t seed) {
  test::EmulatedGpu gpu({.seed = seed});
  const auto device = cuda::make_cuda_device(gpu);
  return train(*device, shards, precision);
}

/// Every step's loss, relative to the CPU's.
void check_as_on_cpu(const Shards& shards, Precision precision, double tolerance) {
  const Trained gpu = train_emulated(shards, precision, 1);
  const auto device = make_host_device();
  const Trained cpu = train(*device, shards, precision);
  CHECK(gpu.skipped == cpu.skipped);
  for (std::size_t i = 0; i < gpu.losses.size(); ++i) {
    CAPTURE(i);
    CHECK(gpu.losses[i] == Approx(cpu.losses[i]).epsilon(tolerance));
  }
}

TEST_CASE("models train on the GPU as on the CPU") {
  check_as_on_cpu(image_shards(ModelName::lenet, {28, 28, 1}), Precision::fp32, 1e-5);
  // AdamW moves by the sign of a gradient first, however small that is; and norms over few values
  // make small differences large.
  for (const auto& [model, side] :
       {std::pair(ModelName::resnet18, 16), std::pair(ModelName::unet16, 32)}) {
    Shards shards = image_shards(model, {side, side, 3});
    shards.optimizer = {.kind = OptimizerKind::sgd, .momentum = 0.9};
    shards.learning_rate = 0.01F;
    shards.steps = 2;
    check_as_on_cpu(shards, Precision::fp32, 1e-4);
  }
  check_as_on_cpu(text_shards(), Precision::fp32, 1e-5);
}

TEST_CASE("models train on the GPU in half precision about as on the CPU") {
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    check_as_on_cpu(image_shards(ModelName::lenet, {28, 28, 1}), precision, 1e-2);
    check_as_on_cpu(text_shards(), precision, 2e-2);
  }
}

TEST_CASE("whatever the GPU's streams do first, the bits are the same") {
  const Shards shards = image_shards(ModelName::lenet, {28, 28, 1});
  const Trained first = train_emulated(shards, Precision::fp32, 1);
  for (std::uint64_t seed = 2; seed < 6; ++seed) {
    const Trained again = train_emulated(shards, Precision::fp32, seed);
    CHECK(again.weights == first.weights);
    CHECK(again.losses == first.losses);
  }
}

TEST_CASE("within steps the host waits for nothing of the GPU") {
  for (const Precision precision : {Precision::fp32, Precision::fp16}) {
    const Shards shards = image_shards(ModelName::lenet, {28, 28, 1});
    const Graph& graph = shards.graph;
    test::EmulatedGpu gpu({.seed = 7});
    const auto device = cuda::make_cuda_device(gpu);
    Learner learner(graph, *device,
                    {.optimizer = shards.optimizer,
                     .scaler = {.enabled = precision == Precision::fp16},
                     .precision = precision});
    GraphExecutor executor(graph, *device, {.batch = kTrained, .precision = precision});
    const DeviceMemory gradients = device->allocate(graph.arena_size() * sizeof(float));
    const DeviceMemory counters = device->allocate(sizeof(Counters));
    const auto step = [&] {
      learner.set_learning_rate(shards.learning_rate);
      executor.train(shards.batch(0), learner.weights(), {.seed = 5, .state = learner.state()});
      executor.loss(counters.as<Counters>().front());
      executor.backward(gradients.as<float>(), [](std::size_t) {});
      learner.begin_update(gradients.as<float>());
      learner.update(0, graph.arena_size(), gradients.as<float>());
      learner.finish_update();
    };
    step();  // allocates
    const std::uint64_t before = gpu.host_waits();
    for (int i = 0; i < 20; ++i) step();
    CHECK(gpu.host_waits() == before);
    CHECK(learner.step_state().updates == 21);
  }
}

TEST_CASE("what fails on a GPU names the layer and the pass") {
  const Shards shards = image_shards(ModelName::lenet, {.height = 12, .width = 12, .channels = 1});
  std::string all;
  for (std::uint64_t work = 1; work <= 60; ++work) {
    test::EmulatedGpu gpu({.fails_at = work});
    const auto device = cuda::make_cuda_device(gpu);
    try {
      train(*device, shards, Precision::fp32);
    } catch (const DeviceError& error) {
      all += std::string(error.what()) + "\n";
    }
  }
  for (const char* text : {"layer conv1, forward: convolve failed on emulated GPU 0", "layer fc1, ",
                           "layer conv2, backward: convolve failed",
                           ", after conv1, forward: ", "the loss, forward: "}) {
    CHECK_THAT(all, Catch::Contains(text));
  }
}

}  // namespace
}  // namespace ddprun::trainer
