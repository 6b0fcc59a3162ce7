// Whole steps of a model on the emulated GPU, with the schedules that a GPU may have.
#include <catch2/catch.hpp>

#include "tests/emulated_gpu/emulated_gpu.hpp"
#include "tests/unit/trainer/cuda/model_steps.hpp"
#include "trainer/cuda/cuda_device.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

test::Trained train_emulated(const test::Shards& shards, Precision precision, std::uint64_t seed) {
  test::EmulatedGpu gpu({.seed = seed});
  const auto device = cuda::make_cuda_device(gpu);
  return test::train(*device, shards, precision);
}

TEST_CASE("whatever the GPU's streams do first, the bits are the same") {
  const test::Shards shards = test::image_shards(ModelName::lenet, {28, 28, 1});
  const test::Trained first = train_emulated(shards, Precision::fp32, 1);
  for (std::uint64_t seed = 2; seed < 6; ++seed) {
    const test::Trained again = train_emulated(shards, Precision::fp32, seed);
    CHECK(again.weights == first.weights);
    CHECK(again.losses == first.losses);
  }
}

TEST_CASE("within steps the host waits for nothing of the GPU") {
  for (const Precision precision : {Precision::fp32, Precision::fp16}) {
    const test::Shards shards = test::image_shards(ModelName::lenet, {28, 28, 1});
    const Graph& graph = shards.graph;
    test::EmulatedGpu gpu({.seed = 7});
    const auto device = cuda::make_cuda_device(gpu);
    Learner learner(graph, *device,
                    {.optimizer = shards.optimizer,
                     .scaler = {.enabled = precision == Precision::fp16},
                     .precision = precision});
    GraphExecutor executor(graph, *device, {.batch = test::kTrained, .precision = precision});
    const DeviceMemory gradients = device->allocate(graph.arena_size() * sizeof(float));
    const DeviceMemory counters = device->allocate(sizeof(Counters));
    const auto step = [&] {
      learner.set_learning_rate(shards.learning_rate);
      executor.train(shards.batch(0), learner.weights(), {.seed = 5, .state = learner.state()});
      executor.loss(counters.as<Counters>().front());
      executor.backward({.floats = gradients.as<float>()}, [](std::size_t) {});
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

TEST_CASE("a GPU that hangs before memory is freed for a larger shard is an error, not a hang") {
  const test::Shards shards = test::text_shards();
  test::EmulatedGpu gpu;
  const auto device = cuda::make_cuda_device(gpu);
  Learner learner(shards.graph, *device, {.optimizer = shards.optimizer});
  GraphExecutor executor(shards.graph, *device, {.batch = test::kTrained});
  const auto train = [&](int width) {
    Batch batch = shards.batch(0);
    const std::vector<std::int32_t> tokens(batch.lengths.size() * static_cast<std::size_t>(width),
                                           7);
    batch.width = width;
    batch.tokens = tokens;
    executor.train(batch, learner.weights(), {.seed = 5, .state = learner.state()});
  };
  train(kLengthUnit);
  static_cast<test::NativeStream*>(gpu.native(cuda::Stream::compute))->enqueue([] {
    return false;
  });
  gpu.set_watch([](auto) { throw DeviceError("the GPU has not finished its own work"); });
  CHECK_THROWS_WITH(train(2 * kLengthUnit),
                    Catch::Contains("the GPU has not finished its own work"));
  // The buffers of inputs grow in another place.
  const std::vector<std::int32_t> many(100'000);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(many));
  CHECK_THROWS_WITH(device->feed({.values = {{bytes, {}}}, .images = {}}),
                    Catch::Contains("the GPU has not finished its own work"));
  gpu.reset();
}

TEST_CASE("what fails on a GPU names the layer and the pass") {
  const test::Shards shards =
      test::image_shards(ModelName::lenet, {.height = 12, .width = 12, .channels = 1});
  std::string all;
  for (std::uint64_t work = 1; work <= 60; ++work) {
    test::EmulatedGpu gpu({.fails_at = work});
    const auto device = cuda::make_cuda_device(gpu);
    try {
      test::train(*device, shards, Precision::fp32);
    } catch (const DeviceError& error) {
      all += std::string(error.what()) + "\n";
    }
  }
  for (const char* text :
       {"layer 0, inputs: ", "layer conv1, forward: convolve failed on emulated GPU 0",
        "layer fc1, ", "layer conv2, backward: convolve failed",
        ", after conv1, forward: ", "the loss, forward: "}) {
    CHECK_THAT(all, Catch::Contains(text));
  }
}

}  // namespace
}  // namespace ddprun::trainer
