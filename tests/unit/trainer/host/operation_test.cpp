#include "trainer/host/operations.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "tests/unit/trainer/layers/reference_layers.hpp"
#include "trainer/compute/philox.hpp"
#include "trainer/host/thread_count.hpp"

namespace ddprun::trainer {
namespace {

std::vector<float> random_values(std::size_t count, std::uint32_t seed) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] =
        2.0F * unit_uniform(philox({{static_cast<std::uint32_t>(i), 0, 0, 0}}, seed, 0).word[0]) -
        1.0F;
  }
  return values;
}

/// Agreement to `tolerance` times the largest value: fp32 sums in another order than the
/// reference's.
void require_close(const std::vector<float>& got, const std::vector<double>& want, const char* what,
                   double tolerance = 2e-6) {
  REQUIRE(got.size() == want.size());
  double largest = 1;
  double worst = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::abs(want[i]));
    worst = std::max(worst, std::abs(static_cast<double>(got[i]) - want[i]));
  }
  INFO(what << ": error " << worst << " at a largest value of " << largest);
  REQUIRE(worst <= tolerance * largest);
}

struct Run {
  std::vector<float> output, input_gradient, weight_gradient, bias_gradient;
};

using test::LayerShape;

OperationShape operation_shape(const LayerShape& shape,
                               GradientUse gradient = GradientUse::overwrite) {
  return {.batch = shape.batch,
          .inputs = {{shape.input, gradient}},
          .output = shape.output,
          .parameter_counts = {0, 0}};  // weight and bias, where the kind has any
}

/// Memory that an operation wants beside its tensors.
struct Beside {
  explicit Beside(const Operation& operation)
      : saved(operation.memory().saved, std::byte{0x7f}),
        workspace(operation.memory().workspace + 64, std::byte{0x7f}) {}
  void* aligned_workspace() {
    void* at = workspace.data();
    std::size_t room = workspace.size();
    return std::align(64, room - 64, at, room);
  }
  std::vector<std::byte> saved, workspace;
};

Run run(Operation& operation, const LayerShape& shape, const std::vector<float>& input,
        const std::vector<float>& weight, const std::vector<float>& bias,
        const std::vector<float>& output_gradient, float before = 7.0F) {
  const auto batch = static_cast<std::size_t>(shape.batch);
  // Filled with rubbish: operations overwrite.
  Run result{std::vector<float>(batch * shape.output.count(), 7.0F),
             std::vector<float>(batch * shape.input.count(), before),
             std::vector<float>(weight.size(), 7.0F), std::vector<float>(bias.size(), 7.0F)};
  Beside beside(operation);
  const std::array<const void*, 1> inputs{input.data()};
  const std::array<const void*, 2> parameters{weight.data(), bias.data()};
  const std::array<void*, 1> input_gradients{result.input_gradient.data()};
  const std::array<float*, 2> parameter_gradients{result.weight_gradient.data(),
                                                  result.bias_gradient.data()};
  const Tensors tensors{.inputs = inputs,
                        .parameters = parameters,
                        .output = result.output.data(),
                        .saved = beside.saved.data(),
                        .workspace = beside.aligned_workspace(),
                        .output_gradient = output_gradient.data(),
                        .input_gradients = input_gradients,
                        .parameter_gradients = parameter_gradients};
  operation.forward(tensors, {});
  operation.backward(tensors, {});
  return result;
}

ActivationShape slid(const ActivationShape& in, const Window& window, int channels) {
  return {(in.height + 2 * window.padding - window.size) / window.stride + 1,
          (in.width + 2 * window.padding - window.size) / window.stride + 1, channels};
}

TEST_CASE("convolution agrees with the naive one: output and all three gradients") {
  set_thread_count(1);
  struct Case {
    int batch;
    ActivationShape input;
    int outputs;
    Window window;
  };
  const std::vector<Case> cases{{2, {9, 7, 1}, 16, {5, 1, 2}},     // lenet's first
                                {3, {8, 8, 16}, 32, {5, 1, 2}},    // lenet's second
                                {2, {11, 10, 3}, 5, {3, 2, 1}},    // stride, odd channels
                                {2, {15, 15, 3}, 64, {11, 4, 2}},  // AlexNet's first
                                {1, {6, 6, 7}, 13, {1, 1, 0}},     // 1 x 1
                                {2, {5, 5, 16}, 16, {3, 1, 1}}};
  for (const Case& c : cases) {
    const LayerShape shape{c.batch, c.input, slid(c.input, c.window, c.outputs), c.window};
    INFO(c.input.channels << " to " << c.outputs << " channels, window " << c.window.size);
    const auto batch = static_cast<std::size_t>(c.batch);
    const std::size_t weights =
        static_cast<std::size_t>(c.outputs * c.window.size * c.window.size * c.input.channels);
    const auto input = random_values(batch * c.input.count(), 1);
    const auto weight = random_values(weights, 2);
    const auto bias = random_values(static_cast<std::size_t>(c.outputs), 3);
    const auto slope = random_values(batch * shape.output.count(), 4);
    const auto want = test::convolution(shape, input, weight, bias, slope);
    const auto operation = make_convolution(operation_shape(shape), c.window);
    for (int repeat = 0; repeat < 2; ++repeat) {
      const Run got = run(*operation, shape, input, weight, bias, slope);
      require_close(got.output, want.output, "output");
      require_close(got.input_gradient, want.input_gradient, "input gradient");
      require_close(got.weight_gradient, want.weight_gradient, "weight gradient");
      require_close(got.bias_gradient, want.bias_gradient, "bias gradient");
    }
  }
}

TEST_CASE("transposed convolution agrees with the naive one: output and all three gradients") {
  set_thread_count(1);
  struct Case {
    int batch;
    ActivationShape input;
    int outputs;
    layer::TransposedConvolution kind;
  };
  const std::vector<Case> cases{
      {2, {4, 3, 16}, 32, {.window = {.size = 4, .stride = 2, .padding = 1}}},
      {2, {4, 3, 5}, 7, {.window = {.size = 4, .stride = 2, .padding = 1}}},
      {1, {1, 1, 64}, 16, {.window = {.size = 4, .stride = 2, .padding = 1}}},
      {2, {3, 5, 8}, 6, {.window = {.size = 3, .stride = 2, .padding = 1}}}};
  for (const Case& c : cases) {
    const Window& window = c.kind.window;
    const auto enlarged = [&](int length) {
      return (length - 1) * window.stride - 2 * window.padding + window.size;
    };
    const LayerShape shape{
        c.batch, c.input, {enlarged(c.input.height), enlarged(c.input.width), c.outputs}, window};
    INFO(c.input.channels << " to " << c.outputs << " channels, window " << window.size);
    const auto batch = static_cast<std::size_t>(c.batch);
    const std::size_t weights =
        static_cast<std::size_t>(c.outputs * window.size * window.size * c.input.channels);
    const auto input = random_values(batch * c.input.count(), 1);
    const auto weight = random_values(weights, 2);
    const auto bias = random_values(static_cast<std::size_t>(c.outputs), 3);
    const auto slope = random_values(batch * shape.output.count(), 4);
    const auto want = test::transposed_convolution(shape, input, weight, bias, slope);
    const auto operation = make_transposed_convolution(operation_shape(shape), c.kind);
    for (int repeat = 0; repeat < 2; ++repeat) {
      const Run got = run(*operation, shape, input, weight, bias, slope);
      require_close(got.output, want.output, "output");
      require_close(got.input_gradient, want.input_gradient, "input gradient");
      require_close(got.weight_gradient, want.weight_gradient, "weight gradient");
      require_close(got.bias_gradient, want.bias_gradient, "bias gradient");
    }
  }
}

TEST_CASE("linear agrees with the naive one: output and all three gradients") {
  set_thread_count(1);
  for (const auto& [inputs, outputs] : {std::pair{1568, 120}, {84, 10}, {1, 1}, {7, 33}}) {
    const LayerShape shape{6, {1, 1, inputs}, {1, 1, outputs}, {}};
    INFO(inputs << " to " << outputs);
    const auto input = random_values(6 * shape.input.count(), 1);
    const auto weight = random_values(shape.input.count() * shape.output.count(), 2);
    const auto bias = random_values(shape.output.count(), 3);
    const auto slope = random_values(6 * shape.output.count(), 4);
    const auto want = test::convolution(shape, input, weight, bias, slope);
    const auto operation = make_linear(operation_shape(shape));
    const Run got = run(*operation, shape, input, weight, bias, slope);
    require_close(got.output, want.output, "output");
    require_close(got.input_gradient, want.input_gradient, "input gradient");
    require_close(got.weight_gradient, want.weight_gradient, "weight gradient");
    require_close(got.bias_gradient, want.bias_gradient, "bias gradient");
  }
}

TEST_CASE("max-pooling agrees with the naive one, overlapping and padded windows included") {
  set_thread_count(1);
  for (const Window& window : {Window{2, 2, 0}, Window{3, 2, 1}, Window{3, 2, 0}}) {
    for (const int channels : {16, 5}) {
      const ActivationShape in{9, 8, channels};
      const LayerShape shape{2, in, slid(in, window, channels), window};
      INFO(channels << " channels, window " << window.size);
      const auto input = random_values(2 * in.count(), 1);
      const auto slope = random_values(2 * shape.output.count(), 4);
      const auto want = test::max_pool(shape, input, slope);
      const auto operation = make_max_pool(operation_shape(shape), window);
      const Run got = run(*operation, shape, input, {}, {}, slope);
      require_close(got.output, want.output, "output");
      require_close(got.input_gradient, want.input_gradient, "input gradient");
    }
  }
}

TEST_CASE("max-pooling passes a nan on, and the first of equals gets the gradient, as in PyTorch") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kLow = -std::numeric_limits<float>::infinity();
  // Three equal rows of six pixels, a 3 x 3 window: two outputs.
  const LayerShape shape{1, {3, 6, 1}, {1, 2, 1}, {3, 3, 0}};
  const auto rows = [](const std::vector<float>& row) {
    std::vector<float> all;
    for (int i = 0; i < 3; ++i) all.insert(all.end(), row.begin(), row.end());
    return all;
  };
  const auto operation = make_max_pool(operation_shape(shape), shape.window);
  Run got = run(*operation, shape, rows({1, kNan, 3, 5, 5, 4}), {}, {}, {10, 20});
  REQUIRE(std::isnan(got.output[0]));
  REQUIRE(got.output[1] == 5.0F);
  std::vector<float> want(18, 0.0F);
  want[3] = 20;
  want[13] = 10;  // the last of several nans: PyTorch's choice
  REQUIRE(got.input_gradient == want);
  got = run(*operation, shape, rows({kLow, kLow, kLow, kLow, -7, kLow}), {}, {}, {10, 20});
  REQUIRE(got.output == std::vector<float>{kLow, -7});
  REQUIRE(got.input_gradient[0] == 10.0F);
  REQUIRE(got.input_gradient[4] == 20.0F);
}

TEST_CASE("ReLU, also in place") {
  const LayerShape shape{1, {1, 1, 5}, {1, 1, 5}, {}};
  const std::vector<float> input{-1, 0, 2, -3, 4};
  const std::vector<float> slope{10, 20, 30, 40, 50};
  const auto operation = make_relu(operation_shape(shape));
  const Run got = run(*operation, shape, input, {}, {}, slope);
  REQUIRE(got.output == std::vector<float>{0, 0, 2, 0, 4});
  REQUIRE(got.input_gradient == std::vector<float>{0, 0, 30, 0, 50});
  std::vector<float> values = input;
  std::vector<float> slopes = slope;
  const std::array<const void*, 1> inputs{values.data()};
  const std::array<void*, 1> gradients{slopes.data()};
  const Tensors tensors{.inputs = inputs,
                        .parameters = {},
                        .output = values.data(),
                        .output_gradient = slopes.data(),
                        .input_gradients = gradients,
                        .parameter_gradients = {}};
  operation->forward(tensors, {});
  operation->backward(tensors, {});
  REQUIRE(values == got.output);
  REQUIRE(slopes == got.input_gradient);
}

TEST_CASE("flatten numbers elements channel by channel, as PyTorch does, and back") {
  const LayerShape shape{2, {1, 2, 3}, {1, 1, 6}, {}};
  // Two images of two pixels with three channels each.
  const std::vector<float> input{0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15};
  const auto operation = make_flatten(operation_shape(shape));
  const Run got = run(*operation, shape, input, {}, {}, {0, 3, 1, 4, 2, 5, 10, 13, 11, 14, 12, 15});
  REQUIRE(got.output == std::vector<float>{0, 3, 1, 4, 2, 5, 10, 13, 11, 14, 12, 15});
  REQUIRE(got.input_gradient == input);
}

TEST_CASE("add sums two inputs and passes the gradient to both") {
  const ActivationShape three{1, 1, 3};
  const OperationShape shape{
      .batch = 1,
      .inputs = {{three, GradientUse::overwrite}, {three, GradientUse::overwrite}},
      .output = three,
      .parameter_counts = {}};
  const std::vector<float> a{1, 2, 3};
  const std::vector<float> b{10, 20, 30};
  const std::vector<float> slope{5, 6, 7};
  std::vector<float> sum(3), to_a(3), to_b(3);
  const std::array<const void*, 2> inputs{a.data(), b.data()};
  const std::array<void*, 2> gradients{to_a.data(), to_b.data()};
  const Tensors tensors{.inputs = inputs,
                        .parameters = {},
                        .output = sum.data(),
                        .output_gradient = slope.data(),
                        .input_gradients = gradients,
                        .parameter_gradients = {}};
  const auto operation = make_add(shape);
  operation->forward(tensors, {});
  operation->backward(tensors, {});
  REQUIRE(sum == std::vector<float>{11, 22, 33});
  REQUIRE(to_a == slope);
  REQUIRE(to_b == slope);
}

TEST_CASE("gradients that accumulate are added to those that are there, around any operation") {
  set_thread_count(1);
  const LayerShape shape{2, {5, 5, 16}, {5, 5, 16}, {3, 1, 1}};
  const auto input = random_values(2 * shape.input.count(), 1);
  const auto weight = random_values(std::size_t{16} * 9 * 16, 2);
  const auto bias = random_values(16, 3);
  const auto slope = random_values(2 * shape.output.count(), 4);
  const OperationShape plain = operation_shape(shape);
  const Run alone = run(*make_convolution(plain, shape.window), shape, input, weight, bias, slope);
  const OperationShape adds = operation_shape(shape, GradientUse::accumulate);
  const auto operation = accumulating(make_convolution(adds, shape.window), adds);
  const Run sum = run(*operation, shape, input, weight, bias, slope, 3.0F);
  REQUIRE(sum.output == alone.output);
  REQUIRE(sum.weight_gradient == alone.weight_gradient);
  for (std::size_t i = 0; i < sum.input_gradient.size(); ++i)
    REQUIRE(sum.input_gradient[i] == 3.0F + alone.input_gradient[i]);
}

}  // namespace
}  // namespace ddprun::trainer
