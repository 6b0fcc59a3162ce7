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

struct Trained {
  std::vector<float> weights;
  std::vector<double> losses;  ///< of each step
  std::uint64_t skipped = 0;
};

/// Some steps of one shard each, the last one smaller.
Trained train(Device& device, const Graph& graph, Precision precision, int steps) {
  constexpr int kBatch = 6;
  const bool scales = precision == Precision::fp16;
  Learner learner(graph, device,
                  {.optimizer = {.kind = OptimizerKind::adamw, .weight_decay = 0.01},
                   .scaler = {.enabled = scales},
                   .precision = precision});
  std::vector<float> weights(graph.arena_size());
  initialize(graph.parameters(), weights, 3);
  learner.copy_in(0, weights);
  GraphExecutor executor(graph, device, {.batch = kBatch, .precision = precision});
  const DeviceMemory gradients = device.allocate(graph.arena_size() * sizeof(float));
  const DeviceMemory counters = device.allocate(sizeof(Counters));
  Trained trained;
  for (int step = 0; step < steps; ++step) {
    const test::Samples samples = test::squares(step + 1 < steps ? kBatch : 4, {28, 28, 1}, 10,
                                                static_cast<std::uint32_t>(step));
    learner.set_learning_rate(0.001F);
    const Counters none;
    device.copy_in(std::as_bytes(std::span(&none, 1)), counters.data());
    executor.train(samples.batch(), learner.weights(), {.seed = 5, .state = learner.state()});
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

Trained train_emulated(const Graph& graph, Precision precision, int steps, std::uint64_t seed) {
  test::EmulatedGpu gpu({.seed = seed});
  const auto device = cuda::make_cuda_device(gpu);
  return train(*device, graph, precision, steps);
}

Graph lenet() {
  return make_graph({.model = ModelName::lenet, .shape = {28, 28, 1}, .classes = 10});
}

TEST_CASE("a model trains on the GPU as on the CPU") {
  const Graph graph = lenet();
  const Trained gpu = train_emulated(graph, Precision::fp32, 5, 1);
  const auto device = make_host_device();
  const Trained cpu = train(*device, graph, Precision::fp32, 5);
  REQUIRE(gpu.losses.size() == 5);
  for (std::size_t i = 0; i < gpu.losses.size(); ++i) {
    CAPTURE(i);
    CHECK(gpu.losses[i] == Approx(cpu.losses[i]).epsilon(1e-4));
  }
}

TEST_CASE("whatever the GPU's streams do first, the bits are the same") {
  const Graph graph = lenet();
  const Trained first = train_emulated(graph, Precision::fp32, 2, 1);
  for (std::uint64_t seed = 2; seed < 6; ++seed) {
    const Trained again = train_emulated(graph, Precision::fp32, 2, seed);
    CHECK(again.weights == first.weights);
    CHECK(again.losses == first.losses);
  }
}

}  // namespace
}  // namespace ddprun::trainer
