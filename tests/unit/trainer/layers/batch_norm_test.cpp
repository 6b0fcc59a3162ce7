// Batch norm against its formulas in double precision.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/unit/trainer/layers/layer_run.hpp"

namespace ddprun::trainer {
namespace {

constexpr double kEpsilon = 1e-5;

struct NormValues {
  std::vector<double> output, input_gradient, scale_gradient, shift_gradient, mean, variance;
};

/// S. Ioffe and C. Szegedy, "Batch normalization", 2015; the gradients by the chain rule.
NormValues reference(const std::vector<float>& input, const std::vector<float>& scale,
                     const std::vector<float>& shift, const std::vector<float>& slope, bool relu) {
  const std::size_t channels = scale.size();
  const auto n = static_cast<double>(input.size() / channels);
  NormValues values;
  values.output.resize(input.size());
  values.input_gradient.resize(input.size());
  for (std::size_t c = 0; c < channels; ++c) {
    double sum = 0;
    for (std::size_t i = c; i < input.size(); i += channels) sum += static_cast<double>(input[i]);
    const double mean = sum / n;
    double squares = 0;
    for (std::size_t i = c; i < input.size(); i += channels)
      squares += std::pow(static_cast<double>(input[i]) - mean, 2);
    const double deviation = std::sqrt(squares / n + kEpsilon);
    const auto hat = [&](std::size_t i) {
      return (static_cast<double>(input[i]) - mean) / deviation;
    };
    double slopes = 0;
    double slopes_hat = 0;
    std::vector<double> passed(input.size());
    for (std::size_t i = c; i < input.size(); i += channels) {
      const double y = hat(i) * static_cast<double>(scale[c]) + static_cast<double>(shift[c]);
      values.output[i] = relu ? std::max(y, 0.0) : y;
      passed[i] = relu && y <= 0 ? 0 : static_cast<double>(slope[i]);
      slopes += passed[i];
      slopes_hat += passed[i] * hat(i);
    }
    for (std::size_t i = c; i < input.size(); i += channels) {
      values.input_gradient[i] = static_cast<double>(scale[c]) / deviation *
                                 (passed[i] - slopes / n - hat(i) * slopes_hat / n);
    }
    values.scale_gradient.push_back(slopes_hat);
    values.shift_gradient.push_back(slopes);
    values.mean.push_back(mean);
    values.variance.push_back(squares / (n - 1));
  }
  return values;
}

OperationShape norm_shape(int batch, const ActivationShape& shape,
                          GradientUse gradient = GradientUse::overwrite) {
  const auto channels = static_cast<std::size_t>(shape.channels);
  return {.batch = batch,
          .inputs = {{shape, gradient}},
          .output = shape,
          .parameter_counts = std::vector<std::size_t>(4, channels)};
}

test::LayerRun norm_run(const OperationShape& shape, bool relu) {
  test::LayerRun layer(layer::BatchNorm{relu}, shape);
  const std::size_t count = static_cast<std::size_t>(shape.batch) * shape.output.count();
  const auto channels = static_cast<std::size_t>(shape.output.channels);
  layer.inputs = {test::uniform_values(count, 1)};
  for (float& value : layer.inputs[0]) value = 3 * value + 2;
  layer.parameters = {test::uniform_values(channels, 2), test::uniform_values(channels, 3),
                      std::vector<float>(channels, 0.25F), std::vector<float>(channels, 4.0F)};
  layer.output_gradient = test::uniform_values(count, 4);
  return layer;
}

TEST_CASE("batch norm agrees with its formulas, with and without a ReLU") {
  for (const bool relu : {false, true}) {
    for (const ActivationShape& shape : {ActivationShape{7, 5, 16}, {4, 4, 64}, {1, 1, 5}}) {
      INFO(shape.channels << " channels, ReLU " << relu);
      test::LayerRun layer = norm_run(norm_shape(6, shape), relu);
      for (int repeat = 0; repeat < 2; ++repeat) {
        layer.run();
        const NormValues want = reference(layer.inputs[0], layer.parameters[0], layer.parameters[1],
                                          layer.output_gradient, relu);
        CHECK(test::distance(layer.output, want.output) < 5e-6);
        CHECK(test::distance(layer.input_gradients[0], want.input_gradient) < 5e-6);
        CHECK(test::distance(layer.parameter_gradients[0], want.scale_gradient) < 5e-6);
        CHECK(test::distance(layer.parameter_gradients[1], want.shift_gradient) < 5e-6);
        // In the places of the running statistics' gradients: what the shard adds to them.
        CHECK(test::distance(layer.parameter_gradients[2], want.mean) < 5e-6);
        CHECK(test::distance(layer.parameter_gradients[3], want.variance) < 5e-6);
      }
    }
  }
}

TEST_CASE("evaluation uses the running mean and variance") {
  for (const bool relu : {false, true}) {
    OperationShape shape = norm_shape(3, {4, 4, 16}, GradientUse::none);
    shape.trains = false;
    test::LayerRun layer = norm_run(shape, relu);
    layer.run();
    std::vector<double> want;
    for (std::size_t i = 0; i < layer.inputs[0].size(); ++i) {
      const std::size_t c = i % 16;
      const double y = (static_cast<double>(layer.inputs[0][i]) - 0.25) /
                           std::sqrt(4.0 + kEpsilon) * static_cast<double>(layer.parameters[0][c]) +
                       static_cast<double>(layer.parameters[1][c]);
      want.push_back(relu ? std::max(y, 0.0) : y);
    }
    CHECK(test::distance(layer.output, want) < 5e-6);
  }
}

TEST_CASE("the other gradients are right where the input's is not needed") {
  test::LayerRun with = norm_run(norm_shape(4, {3, 3, 16}), true);
  test::LayerRun without = norm_run(norm_shape(4, {3, 3, 16}, GradientUse::none), true);
  with.run();
  without.run();
  CHECK(with.parameter_gradients == without.parameter_gradients);
}

TEST_CASE("a ReLU behind batch norm does not hide a nan") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr std::size_t kChannels = 64;
  const ActivationShape image{4, 4, kChannels};
  const auto nans_of = [&](const std::vector<float>& output, std::size_t channel) {
    std::size_t count = 0;
    for (std::size_t i = channel; i < output.size(); i += kChannels)
      if (std::isnan(output[i])) ++count;
    return count;
  };
  const std::size_t values = 3 * image.count() / kChannels;
  SECTION("of the input, in training: the whole channel's") {
    test::LayerRun layer = norm_run(norm_shape(3, image), true);
    layer.inputs[0][kChannels + 5] = kNan;
    layer.run();
    CHECK(nans_of(layer.output, 5) == values);
    CHECK(nans_of(layer.output, 6) == 0);
  }
  SECTION("of the input, in evaluation: the one value's") {
    OperationShape shape = norm_shape(3, image, GradientUse::none);
    shape.trains = false;
    test::LayerRun layer = norm_run(shape, true);
    layer.inputs[0][kChannels + 5] = kNan;
    layer.run();
    CHECK(nans_of(layer.output, 5) == 1);
    CHECK(std::isnan(layer.output[kChannels + 5]));
    CHECK(nans_of(layer.output, 6) == 0);
  }
  SECTION("of scale or shift") {
    for (const std::size_t parameter : {0, 1}) {
      test::LayerRun layer = norm_run(norm_shape(3, image), true);
      layer.parameters[parameter][7] = kNan;
      layer.run();
      CHECK(nans_of(layer.output, 7) == values);
      CHECK(nans_of(layer.output, 8) == 0);
    }
  }
}

TEST_CASE("a single value of a channel has the variance 0") {
  test::LayerRun layer = norm_run(norm_shape(1, {1, 1, 8}), false);
  layer.run();
  CHECK(layer.parameter_gradients[3] == std::vector<float>(8, 0.0F));
  CHECK(test::distance(layer.output, {layer.parameters[1].begin(), layer.parameters[1].end()}) <
        1e-6);
}

}  // namespace
}  // namespace ddprun::trainer
