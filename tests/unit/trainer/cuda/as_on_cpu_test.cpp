// Whole steps of a model on a GPU, beside the same steps on the CPU.
#include <catch2/catch.hpp>
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

/// Every step's loss, relative to the CPU's.
void check_as_on_cpu(const Shards& shards, Precision precision, double tolerance) {
  const Trained gpu = train(test::device(), shards, precision);
  const auto host = make_host_device();
  const Trained cpu = train(*host, shards, precision);
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

}  // namespace
}  // namespace ddprun::trainer
