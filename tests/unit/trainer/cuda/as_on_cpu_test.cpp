// Whole steps of a model on a GPU, beside the same steps on the CPU.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <utility>

#include "tests/unit/trainer/cuda/model_steps.hpp"
#include "tests/unit/trainer/layers/layer_device.hpp"
#include "trainer/host/host_device.hpp"

namespace ddprun::trainer {
namespace {

using test::image_shards;
using test::Shards;
using test::text_shards;
using test::train;
using test::Trained;

/// Every step's loss, relative to the CPU's, which has no tf32.
void check_as_on_cpu(const Shards& shards, Precision precision, double tolerance) {
  const bool is_tf32 = precision == Precision::tf32;
  const Trained gpu = train(is_tf32 ? test::tf32_device() : test::device(), shards, precision);
  const auto host = make_host_device();
  const Trained cpu = train(*host, shards, is_tf32 ? Precision::fp32 : precision);
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

TEST_CASE("models train on the GPU in tf32 about as on the CPU in fp32") {
  check_as_on_cpu(image_shards(ModelName::lenet, {28, 28, 1}), Precision::tf32, 2e-3);
  check_as_on_cpu(text_shards(), Precision::tf32, 4e-3);
}

/// The arena's gradients after backward of the first `shards` shards: each in an arena of its own,
/// added by the host, or all in one.
std::vector<float> gradients_of(const Shards& model, Precision precision, int shards, bool in_one,
                                Device& device = test::device()) {
  const Graph& graph = model.graph;
  Learner learner(graph, device, {.optimizer = model.optimizer, .precision = precision});
  std::vector<float> weights(graph.arena_size());
  initialize(graph.parameters(), weights, 3);
  learner.copy_in(0, weights);
  GraphExecutor executor(graph, device, {.batch = test::kTrained, .precision = precision});
  const DeviceMemory arena = device.allocate(weights.size() * sizeof(float));
  const DeviceMemory counters = device.allocate(sizeof(Counters));
  std::vector<float> all(weights.size());
  for (int shard = 0; shard < shards; ++shard) {
    // Each shard has other masks and another number of samples.
    executor.train(model.batch(model.steps - 1 - shard), learner.weights(),
                   {.seed = 5, .state = learner.state(), .shard = shard, .shards = shards});
    executor.loss(counters.as<Counters>().front());
    executor.backward({.floats = arena.as<float>(), .accumulates = in_one && shard > 0},
                      [](std::size_t) {});
    if (in_one && shard + 1 < shards) continue;
    std::vector<float> there(weights.size());
    device.copy_out(arena.data(), std::as_writable_bytes(std::span(there)));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] += there[i];
  }
  return all;
}

TEST_CASE("gradients and statistics of several shards add up in one arena") {
  for (const auto& [model, precision] :
       {std::pair(image_shards(ModelName::lenet, {28, 28, 1}), Precision::bf16),
        std::pair(image_shards(ModelName::resnet18, {8, 8, 3}), Precision::fp32),
        std::pair(text_shards(), Precision::fp32), std::pair(text_shards(), Precision::bf16)}) {
    const std::vector<float> apart = gradients_of(model, precision, 2, false);
    const std::vector<float> in_one = gradients_of(model, precision, 2, true);
    for (const Parameter& parameter : model.graph.parameters()) {
      CAPTURE(parameter.name);
      double largest = 0;
      double off = 0;
      for (std::size_t i = parameter.offset; i < parameter.offset + parameter.count; ++i) {
        largest = std::max(largest, std::abs(double{apart[i]}));
        off = std::max(off, std::abs(double{apart[i]} - double{in_one[i]}));
      }
      // Numbers that cancel each other leave nearly nothing but their rounding.
      CHECK(off <= 1e-6 * std::max(largest, 1e-4));
    }
  }
}

TEST_CASE("in tf32 gradients are about those of fp32, and in bf16 what they are without it") {
  for (const Shards& model : {image_shards(ModelName::lenet, {28, 28, 1}), text_shards()}) {
    const auto of = [&](Device& device, Precision precision) {
      return gradients_of(model, precision, 1, true, device);
    };
    const std::vector<float> exact = of(test::device(), Precision::fp32);
    const std::vector<float> rounded = of(test::tf32_device(), Precision::tf32);
    double length = 0;
    double off = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      length += std::pow(double{exact[i]}, 2);
      off += std::pow(double{exact[i]} - double{rounded[i]}, 2);
    }
    // Where two values of a pooling window are nearly equal, the other one may be taken.
    CHECK(std::sqrt(off / length) < 5e-2);
    CHECK(std::sqrt(off / length) > 1e-5);
    CHECK(of(test::tf32_device(), Precision::bf16) == of(test::device(), Precision::bf16));
  }
}

}  // namespace
}  // namespace ddprun::trainer
