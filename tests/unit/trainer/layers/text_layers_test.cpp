// The other layers of texts against their formulas in double precision.
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tests/unit/trainer/layers/finite_differences.hpp"
#include "trainer/compute/dropout_ops.hpp"

namespace ddprun::trainer {
namespace {

using test::Doubles;

OperationShape same_shape(int batch, const ActivationShape& shape,
                          std::vector<std::size_t> parameters = {}) {
  return {.batch = batch,
          .inputs = {{shape, GradientUse::overwrite}},
          .output = shape,
          .parameter_counts = std::move(parameters)};
}

test::LayerRun layer_run(const LayerKind& kind, const OperationShape& shape, float scale = 1) {
  test::LayerRun layer(kind, shape);
  const auto samples = static_cast<std::size_t>(shape.batch);
  for (const OperationShape::Input& input : shape.inputs)
    layer.inputs.push_back(test::uniform_values(samples * input.shape.count(), 1));
  for (float& value : layer.inputs[0]) value = scale * value + 0.25F;
  for (const std::size_t count : shape.parameter_counts)
    layer.parameters.push_back(
        test::uniform_values(count, static_cast<std::uint32_t>(layer.parameters.size()) + 2));
  layer.output_gradient = test::uniform_values(samples * shape.output.count(), 9);
  return layer;
}

TEST_CASE("layer norm and its three gradients agree with the formula") {
  for (const int channels : {16, 5, 70}) {
    INFO(channels << " channels");
    const auto n = static_cast<std::size_t>(channels);
    test::LayerRun layer =
        layer_run(layer::LayerNorm{}, same_shape(2, {1, 3, channels}, {n, n}), 3);
    test::check_against(
        layer,
        [n](const std::vector<Doubles>& values) {
          Doubles output;
          for (std::size_t row = 0; row < values[0].size(); row += n) {
            double mean = 0;
            double squares = 0;
            for (std::size_t c = 0; c < n; ++c) mean += values[0][row + c] / static_cast<double>(n);
            for (std::size_t c = 0; c < n; ++c)
              squares += std::pow(values[0][row + c] - mean, 2) / static_cast<double>(n);
            for (std::size_t c = 0; c < n; ++c)
              output.push_back((values[0][row + c] - mean) / std::sqrt(squares + 1e-5) *
                                   values[1][c] +
                               values[2][c]);
          }
          return output;
        },
        3e-6);
  }
}

TEST_CASE("layer norm of a constant row is the bias, and of zeros too") {
  test::LayerRun layer = layer_run(layer::LayerNorm{}, same_shape(1, {1, 2, 16}, {16, 16}));
  std::fill_n(layer.inputs[0].begin(), 16, 3.0F);
  std::fill_n(layer.inputs[0].begin() + 16, 16, 0.0F);
  layer.run();
  for (std::size_t i = 0; i < 32; ++i) REQUIRE(layer.output[i] == layer.parameters[1][i % 16]);
}

TEST_CASE("the gradients of layer norm's weight and bias do not depend on the number of threads") {
  const OperationShape shape = same_shape(5, {1, 7, 33}, {33, 33});
  test::LayerRun one = layer_run(layer::LayerNorm{}, shape);
  one.run();
  test::LayerRun three = layer_run(layer::LayerNorm{}, shape);
  test::device().use_threads(3);
  three.run();
  test::device().use_threads(1);
  CHECK(three.parameter_gradients == one.parameter_gradients);
  CHECK(three.input_gradients == one.input_gradients);
}

TEST_CASE("GELU and tanh agree with their formulas") {
  const auto each = [](double (*of)(double)) {
    return [of](const std::vector<Doubles>& values) {
      Doubles output;
      for (const double x : values[0]) output.push_back(of(x));
      return output;
    };
  };
  const OperationShape shape = same_shape(2, {1, 5, 7});
  test::LayerRun gelu = layer_run(layer::Gelu{}, shape, 5);
  test::check_against(gelu, each([](double x) { return x * 0.5 * std::erfc(-x * M_SQRT1_2); }));
  test::LayerRun tanh = layer_run(layer::Tanh{}, shape, 3);
  test::check_against(tanh, each([](double x) { return std::tanh(x); }));
}

TEST_CASE("linear takes each token by itself") {
  OperationShape shape = same_shape(2, {1, 4, 6}, {30, 5});
  shape.output.channels = 5;
  test::LayerRun layer = layer_run(layer::Linear{}, shape);
  test::check_against(layer, [](const std::vector<Doubles>& values) {
    Doubles output;
    for (std::size_t token = 0; token < 8; ++token) {
      for (std::size_t o = 0; o < 5; ++o) {
        double sum = values[2][o];
        for (std::size_t i = 0; i < 6; ++i) sum += values[0][token * 6 + i] * values[1][o * 6 + i];
        output.push_back(sum);
      }
    }
    return output;
  });
}

TEST_CASE("the projection of attention has query, key and value of each token side by side") {
  constexpr std::size_t kChannels = 16;
  const std::size_t weights = kChannels * kChannels;
  OperationShape shape =
      same_shape(2, {1, 3, 16}, {weights, weights, weights, kChannels, kChannels, kChannels});
  shape.output.channels = 48;
  test::LayerRun layer(layer::AttentionProjection{}, shape);
  // As in an arena: three weights without a gap, then three biases.
  const auto inputs = test::uniform_values(2 * 3 * kChannels, 1);
  const auto weight = test::uniform_values(3 * weights, 2);
  const auto bias = test::uniform_values(3 * kChannels, 3);
  layer.inputs = {inputs};
  layer.parameters = {weight, {}, {}, bias, {}, {}};
  layer.output_gradient = test::uniform_values(2 * 3 * 48, 4);
  layer.run();
  OperationShape plain = same_shape(2, {1, 3, 16}, {3 * weights, 3 * kChannels});
  plain.output.channels = 48;
  test::LayerRun linear(layer::Linear{}, plain);
  linear.inputs = {inputs};
  linear.parameters = {weight, bias};
  linear.output_gradient = layer.output_gradient;
  linear.run();
  CHECK(layer.output == linear.output);
  CHECK(layer.input_gradients == linear.input_gradients);
  CHECK(layer.parameter_gradients[0] == linear.parameter_gradients[0]);
  CHECK(layer.parameter_gradients[3] == linear.parameter_gradients[1]);
}

struct EmbeddingRun {
  EmbeddingRun()
      : layer(layer::Embedding{.vocabulary = 6, .positions = 6},
              {.batch = 2,
               .inputs = {{{1, 4, 0}, GradientUse::none}},
               .output = {1, 4, 2},
               .parameter_counts = {12, 12, 2}}) {
    layer.inputs = {{}};
    for (const std::size_t count : {12, 12, 2})
      layer.parameters.push_back(
          test::uniform_values(count, static_cast<std::uint32_t>(layer.parameters.size()) + 1));
    layer.output_gradient = test::uniform_values(16, 9);
    layer.pass = {.count = 2, .tokens = tokens.data(), .lengths = lengths.data()};
  }
  std::vector<std::int32_t> tokens{0, 5, 5, 99, 0, 5, -1, 7};  // rubbish behind the lengths
  std::vector<std::int32_t> lengths{3, 2};
  test::LayerRun layer;
};

TEST_CASE("an embedding adds the rows of token, position and type, padding is 0") {
  EmbeddingRun run;
  run.layer.run();
  const auto& tables = run.layer.parameters;
  for (std::size_t s = 0; s < 2; ++s) {
    for (std::size_t t = 0; t < 4; ++t) {
      for (std::size_t c = 0; c < 2; ++c) {
        const std::size_t at = (s * 4 + t) * 2 + c;
        if (t >= static_cast<std::size_t>(run.lengths[s])) {
          REQUIRE(run.layer.output[at] == 0.0F);
          continue;
        }
        const auto token = static_cast<std::size_t>(run.tokens[s * 4 + t]);
        REQUIRE(run.layer.output[at] ==
                tables[0][token * 2 + c] + tables[2][c] + tables[1][(t + 2) * 2 + c]);
      }
    }
  }
}

TEST_CASE("the gradient of an embedding's row is the sum over its tokens, and 0 without one") {
  EmbeddingRun run;
  run.layer.run();
  const auto& slope = run.layer.output_gradient;
  for (std::size_t c = 0; c < 2; ++c) {
    const auto& words = run.layer.parameter_gradients[0];
    CHECK(words[0 + c] == slope[0 + c] + slope[8 + c]);
    CHECK(words[10 + c] == slope[2 + c] + slope[4 + c] + slope[10 + c]);
    for (const std::size_t unused : {1, 2, 3, 4}) CHECK(words[unused * 2 + c] == 0.0F);
    const auto& positions = run.layer.parameter_gradients[1];
    CHECK(positions[0 + c] == 0.0F);
    CHECK(positions[2 + c] == 0.0F);
    CHECK(positions[4 + c] == slope[0 + c] + slope[8 + c]);
    CHECK(positions[8 + c] == slope[4 + c]);
    CHECK(positions[10 + c] == 0.0F);
    CHECK(run.layer.parameter_gradients[2][c] ==
          slope[0 + c] + slope[2 + c] + slope[4 + c] + slope[8 + c] + slope[10 + c]);
  }
}

TEST_CASE("the first token of each sample is taken, and the others get no gradient") {
  OperationShape shape = same_shape(2, {1, 3, 2});
  shape.output.width = 1;
  test::LayerRun layer(layer::FirstToken{}, shape);
  layer.inputs = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}};
  layer.output_gradient = {-1, -2, -3, -4};
  layer.run();
  CHECK(layer.output == std::vector<float>{1, 2, 7, 8});
  CHECK(layer.input_gradients[0] == std::vector<float>{-1, -2, 0, 0, 0, 0, -3, -4, 0, 0, 0, 0});
}

TEST_CASE("padding does not change the dropout mask of real tokens") {
  const auto drop = [](int width) {
    test::LayerRun layer(
        layer::Dropout{.probability = 0.4, .number = 1, .sample_stride = std::size_t{96} * 6},
        same_shape(3, {1, width, 6}));
    layer.inputs = {std::vector<float>(3 * static_cast<std::size_t>(width) * 6, 1.0F)};
    layer.output_gradient = layer.inputs[0];
    static const StepState state;
    static const std::int32_t shard = 2;
    layer.pass = {.count = 3, .shard = &shard, .state = &state, .seed = 7};
    layer.run();
    CHECK(layer.output == layer.input_gradients[0]);
    return layer.output;
  };
  const DropoutMask mask(dropout_rate(0.4), {.seed = 7, .step = 0, .layer = 1, .shard = 2});
  for (const int width : {32, 64, 96}) {
    const std::vector<float> output = drop(width);
    const auto row = static_cast<std::size_t>(width) * 6;
    for (std::size_t i = 0; i < output.size(); ++i)
      REQUIRE(output[i] == mask.factor(i / row * 96 * 6 + i % row));
  }
}

}  // namespace
}  // namespace ddprun::trainer
