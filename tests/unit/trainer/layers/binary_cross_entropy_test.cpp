// The loss against masks: values, gradients, counters.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/unit/trainer/host/host_executor.hpp"
#include "tests/unit/trainer/layers/layer_run.hpp"
#include "trainer/compute/initialize.hpp"
#include "trainer/error.hpp"
#include "trainer/model/graph_builder.hpp"

namespace ddprun::trainer {
namespace {

constexpr ActivationShape kMaskPixels{20, 31, 1};  // more than the loop takes at once
constexpr int kMaskSamples = 3;
constexpr double kMaskWeight = 2.5;

std::vector<float> masks_of(std::size_t count) {
  std::vector<float> masks = test::uniform_values(count, 9);
  for (std::size_t i = 0; i < count; ++i) {
    // Hard ones, and soft ones as a resized mask has.
    const float soft = (masks[i] + 1) / 2;
    masks[i] = i % 3 == 0 ? soft : (soft < 0.5F ? 0.0F : 1.0F);
  }
  return masks;
}

/// -w t ln sigmoid(x) - (1 - t) ln(1 - sigmoid(x)), as PyTorch documents it.
double loss_of_pixel(double x, double target) {
  return kMaskWeight * target * std::log1p(std::exp(-x)) + (1 - target) * std::log1p(std::exp(x));
}

struct MaskSetup {
  explicit MaskSetup(int samples = kMaskSamples)
      : layer(layer::BinaryCrossEntropy{kMaskWeight},
              {.batch = samples,
               .inputs = {{kMaskPixels, GradientUse::overwrite}},
               .output = {0, 0, 0},
               .parameter_counts = {}}) {
    const std::size_t count = static_cast<std::size_t>(samples) * kMaskPixels.count();
    masks = masks_of(count);
    layer.inputs = {test::uniform_values(count, 1)};
    for (float& logit : layer.inputs[0]) logit *= 4;
    state.scaler.scale = 8;
    layer.pass.count = samples;
    layer.pass.masks = masks.data();
    layer.pass.counters = &counters;
    layer.pass.state = &state;
    layer.pass.shards = 2;
    layer.pass.batch = samples;
  }
  test::LayerRun layer;
  std::vector<float> masks;
  StepState state;
  Counters counters;
};

TEST_CASE("the loss against a mask is the mean over a sample's pixels, summed over the samples") {
  MaskSetup setup;
  setup.layer.run();
  double want = 0;
  for (std::size_t i = 0; i < setup.masks.size(); ++i)
    want += loss_of_pixel(static_cast<double>(setup.layer.inputs[0][i]),
                          static_cast<double>(setup.masks[i]));
  want /= static_cast<double>(kMaskPixels.count());
  CHECK(static_cast<double>(setup.counters.loss) * kLossUnit == Approx(want).epsilon(1e-6));
  CHECK(setup.counters.count == kMaskSamples);
  CHECK(setup.counters.correct == 0);
  CHECK(setup.counters.not_finite == 0);
}

TEST_CASE("the gradient of the loss against a mask agrees with finite differences in double") {
  MaskSetup setup;
  setup.layer.run();
  // The loss is the mean over all samples, times the loss scale, over two shards.
  const double factor = 8.0 / 2 / (kMaskSamples * static_cast<double>(kMaskPixels.count()));
  constexpr double kStep = 1e-5;
  std::vector<double> want;
  double largest = 0;
  for (std::size_t i = 0; i < setup.masks.size(); ++i) {
    const auto x = static_cast<double>(setup.layer.inputs[0][i]);
    const auto target = static_cast<double>(setup.masks[i]);
    want.push_back(factor * (loss_of_pixel(x + kStep, target) - loss_of_pixel(x - kStep, target)) /
                   (2 * kStep));
    largest = std::max(largest, std::abs(want.back()));
  }
  for (std::size_t i = 0; i < want.size(); ++i) {
    REQUIRE(static_cast<double>(setup.layer.input_gradients[0][i]) ==
            Approx(want[i]).margin(1e-6 * largest));
  }
}

TEST_CASE("pixels are counted as true positives, false positives and false negatives") {
  MaskSetup setup;
  std::int64_t both = 0;
  std::int64_t predicted = 0;
  std::int64_t wanted = 0;
  for (std::size_t i = 0; i < setup.masks.size(); ++i) {
    const bool predicts = setup.layer.inputs[0][i] > 0;
    const bool wants = setup.masks[i] >= 0.5F;
    both += predicts && wants ? 1 : 0;
    predicted += predicts ? 1 : 0;
    wanted += wants ? 1 : 0;
  }
  setup.layer.run();
  CHECK(setup.counters.true_positives == both);
  CHECK(setup.counters.false_positives == predicted - both);
  CHECK(setup.counters.false_negatives == wanted - both);
  CHECK(both > 0);
  CHECK(predicted > both);
  CHECK(wanted > both);
  CHECK(intersection_over_union(setup.counters) ==
        static_cast<double>(both) / static_cast<double>(predicted + wanted - both));
}

TEST_CASE("padding behind the last sample counts nowhere") {
  MaskSetup whole(2);
  whole.layer.run();
  MaskSetup padded;
  padded.layer.pass.count = 2;
  padded.layer.pass.state = nullptr;
  // Only forward: training has no padding.
  OperationShape shape{.batch = kMaskSamples,
                       .inputs = {{kMaskPixels, GradientUse::none}},
                       .output = {0, 0, 0},
                       .parameter_counts = {},
                       .trains = false};
  test::LayerRun evaluation(layer::BinaryCrossEntropy{kMaskWeight}, shape);
  evaluation.inputs = padded.layer.inputs;
  evaluation.pass = padded.layer.pass;
  evaluation.run();
  CHECK(padded.counters == whole.counters);
}

TEST_CASE("a pixel that is not finite is found in its sample") {
  MaskSetup setup;
  setup.layer.inputs[0][kMaskPixels.count() + 7] = std::numeric_limits<float>::quiet_NaN();
  setup.layer.run();
  CHECK(setup.counters.not_finite == 1);
  CHECK(setup.counters.first_not_finite == first_place(setup.layer.pass) + 1);
}

/// One convolution, one logit a pixel.
Graph mask_net() {
  GraphBuilder graph({4, 5, 2});
  graph.binary_cross_entropy(
      graph.convolution("head", 0, 1, {.size = 3, .stride = 1, .padding = 1}), kMaskWeight);
  return graph.finish();
}

TEST_CASE("a graph that ends in masks trains and evaluates on them") {
  const Graph graph = mask_net();
  REQUIRE(graph.target() == Target::mask);
  std::vector<float> parameters(graph.arena_size());
  std::vector<float> gradients(graph.arena_size());
  initialize(graph.parameters(), parameters, 1);
  const std::vector<float> images = test::uniform_values(3 * 40, 2);
  const std::vector<float> masks = masks_of(std::size_t{3} * 20);
  const Batch batch{.images = images, .masks = masks};
  test::HostExecutor executor(graph, 3);
  const Counters trained = executor.train(batch, parameters, 1, 1, gradients);
  CHECK(trained.count == 3);
  CHECK(executor.evaluate(batch, parameters) == trained);
  const auto loss_at = [&](std::size_t element, float offset) {
    std::vector<float> moved = parameters;
    moved[element] += offset;
    return test::loss_of(executor.evaluate(batch, moved)) / 3;
  };
  for (const Parameter& parameter : graph.parameters()) {
    for (std::size_t i = 0; i < parameter.count; ++i) {
      const std::size_t element = parameter.offset + i;
      const double slope = (loss_at(element, 0.01F) - loss_at(element, -0.01F)) / 0.02;
      INFO(parameter.name << " element " << i);
      CHECK(static_cast<double>(gradients[element]) == Approx(slope).margin(1e-4));
    }
  }
}

TEST_CASE("masks that do not fit the graph are told apart from bad data") {
  const Graph graph = mask_net();
  const std::vector<float> parameters(graph.arena_size());
  const std::vector<float> images(40);
  std::vector<float> masks(20, 0.5F);
  const std::vector<std::int32_t> labels(1);
  test::HostExecutor executor(graph, 1);
  CHECK_NOTHROW(executor.evaluate({.images = images, .masks = masks}, parameters));
  CHECK_THROWS_AS(executor.evaluate({.images = images, .labels = labels}, parameters),
                  std::logic_error);
  for (const float bad : {-0.1F, 1.5F, std::numeric_limits<float>::quiet_NaN()}) {
    masks[3] = bad;
    CHECK_THROWS_AS(executor.evaluate({.images = images, .masks = masks}, parameters), DataError);
  }
  masks.pop_back();
  CHECK_THROWS_AS(executor.evaluate({.images = images, .masks = masks}, parameters),
                  std::logic_error);
  GraphBuilder two({4, 4, 2});
  CHECK_THROWS_AS(two.binary_cross_entropy(0, 1), std::logic_error);
}

}  // namespace
}  // namespace ddprun::trainer
