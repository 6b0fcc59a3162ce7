// Dropout: which elements, how they are scaled, and that nothing but the place in the run decides.
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tests/unit/trainer/layers/layer_run.hpp"
#include "trainer/compute/dropout_ops.hpp"

namespace ddprun::trainer {
namespace {

constexpr ActivationShape kShape{5, 3, 7};  // 105 elements: no multiple of four
constexpr int kSamples = 6;

struct DropoutRun {
  explicit DropoutRun(const layer::Dropout& kind, bool trains = true)
      : layer(kind, {.batch = kSamples,
                     .inputs = {{kShape, GradientUse::overwrite}},
                     .output = kShape,
                     .parameter_counts = {},
                     .trains = trains}) {
    layer.inputs = {std::vector<float>(kSamples * kShape.count(), 1.0F)};
    layer.output_gradient = std::vector<float>(kSamples * kShape.count(), 2.0F);
    if (trains) layer.pass.state = &state;
    layer.pass.seed = 42;
    layer.pass.shard = &number;
  }
  std::vector<float> run() {
    layer.run();
    return layer.output;
  }
  StepState state;
  std::int32_t number = 3;
  test::LayerRun layer;
};

double share_of_zeros(const std::vector<float>& values) {
  return static_cast<double>(std::count(values.begin(), values.end(), 0.0F)) /
         static_cast<double>(values.size());
}

TEST_CASE("each element is dropped or scaled, by the mask of its place, and its gradient alike") {
  DropoutRun one({.probability = 0.25, .number = 2});
  one.state.updates = 7;
  one.state.skipped = 2;
  const std::vector<float> output = one.run();
  const DropoutMask mask(dropout_rate(0.25), {.seed = 42, .step = 9, .layer = 2, .shard = 3});
  for (std::size_t i = 0; i < output.size(); ++i) {
    REQUIRE(output[i] == mask.factor(i));
    REQUIRE(one.layer.input_gradients[0][i] == 2 * mask.factor(i));
  }
  CHECK(std::abs(share_of_zeros(output) - 0.25) < 0.07);
}

TEST_CASE("another step, shard, layer or seed has another mask, and the same place the same") {
  const layer::Dropout kind{.probability = 0.5};
  const std::vector<float> base = DropoutRun(kind).run();
  CHECK(DropoutRun(kind).run() == base);
  DropoutRun step(kind);
  step.state.updates = 1;
  CHECK(step.run() != base);
  DropoutRun shard(kind);
  shard.number = 4;
  CHECK(shard.run() != base);
  DropoutRun seed(kind);
  seed.layer.pass.seed = 43;
  CHECK(seed.run() != base);
  CHECK(DropoutRun({.probability = 0.5, .number = 1}).run() != base);
}

TEST_CASE("2-D dropout drops channels of samples as a whole") {
  DropoutRun one({.probability = 0.5, .whole_channels = true});
  const std::vector<float> output = one.run();
  const auto channels = static_cast<std::size_t>(kShape.channels);
  for (std::size_t i = 0; i < output.size(); ++i) {
    const std::size_t first = i / kShape.count() * kShape.count() + i % channels;
    REQUIRE(output[i] == output[first]);
    REQUIRE(one.layer.input_gradients[0][i] == 2 * output[i]);
  }
  const double zeros = share_of_zeros(output);
  CHECK(zeros > 0.2);
  CHECK(zeros < 0.8);
}

TEST_CASE("evaluation drops nothing") {
  DropoutRun one({.probability = 0.9}, false);
  CHECK(one.run() == one.layer.inputs[0]);
}

}  // namespace
}  // namespace ddprun::trainer
