#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/unit/trainer/layers/layer_run.hpp"
#include "tests/unit/trainer/layers/reference_layers.hpp"

namespace ddprun::trainer {
namespace {

constexpr int kImages = 3;

struct Pooled {
  std::vector<float> output, input_gradient;
};

/// The rule, one output after the other: a nan wins, of equal values the first, and gradients add
/// up in the order of the outputs.
Pooled reference(const Window& window, const ActivationShape& in, const ActivationShape& out,
                 const std::vector<float>& input, const std::vector<float>& slope) {
  Pooled values{std::vector<float>(kImages * out.count()),
                std::vector<float>(kImages * in.count(), 0.0F)};
  const auto take = [&](int n, int y, int x, int c) {
    const std::size_t to = test::at(out, n, y, x, c);
    float largest = 0;
    std::size_t winner = 0;
    bool first = true;
    for (int k = 0; k < window.size * window.size; ++k) {
      const int row = y * window.stride - window.padding + k / window.size;
      const int column = x * window.stride - window.padding + k % window.size;
      if (row < 0 || row >= in.height || column < 0 || column >= in.width) continue;
      const std::size_t from = test::at(in, n, row, column, c);
      if (first || input[from] > largest || std::isnan(input[from])) {
        largest = input[from];
        winner = from;
      }
      first = false;
    }
    values.output[to] = largest;
    values.input_gradient[winner] += slope[to];
  };
  for (int n = 0; n < kImages; ++n) {
    for (int y = 0; y < out.height; ++y) {
      for (int x = 0; x < out.width; ++x) {
        for (int c = 0; c < in.channels; ++c) take(n, y, x, c);
      }
    }
  }
  return values;
}

/// Many equal values, both zeros, infinities and nans of two kinds; the rest uniform.
std::vector<float> awkward_values(std::size_t count, std::uint32_t seed) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::array<float, 8> awkward{0.0F,
                                     -0.0F,
                                     0.5F,
                                     0.5F,
                                     kInfinity,
                                     -kInfinity,
                                     std::bit_cast<float>(0x7fc00000U),
                                     std::bit_cast<float>(0xffc00123U)};
  std::vector<float> values = test::uniform_values(count, seed);
  const std::vector<float> choice = test::uniform_values(count, seed + 1);
  for (std::size_t i = 0; i < count; ++i) {
    const auto kind = static_cast<std::size_t>((choice[i] + 1) * 12);
    if (kind < awkward.size()) values[i] = awkward[kind];
  }
  return values;
}

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

TEST_CASE(
    "max-pooling has the bits of the plain rule, for every kind of window and channel count") {
  struct Case {
    int height, width;
    Window window;
  };
  const std::vector<Case> cases{{4, 6, {2, 2, 0}},    // divides
                                {28, 28, {2, 2, 0}},  // lenet's
                                {7, 4, {2, 2, 0}},    // a row outside all windows
                                {4, 7, {2, 2, 0}},    // a column
                                {9, 11, {2, 2, 0}},  {5, 7, {2, 2, 1}},
                                {6, 5, {2, 1, 0}},  // overlapping
                                {8, 9, {2, 3, 0}},  // gaps
                                {9, 8, {3, 2, 0}},  // AlexNet's
                                {9, 8, {3, 2, 1}},  // ResNet's
                                {7, 7, {3, 3, 0}},   {20, 19, {17, 2, 0}}};
  for (const Case& c : cases) {
    for (const int channels : {1, 6, 16, 17, 32, 64, 71}) {
      const ActivationShape in{c.height, c.width, channels};
      const auto slid = [&](int length) {
        return (length + 2 * c.window.padding - c.window.size) / c.window.stride + 1;
      };
      const ActivationShape out{slid(c.height), slid(c.width), channels};
      INFO(c.height << " x " << c.width << " pixels, " << channels << " channels, window "
                    << c.window.size << ", stride " << c.window.stride << ", padding "
                    << c.window.padding);
      test::LayerRun layer(layer::MaxPool{c.window}, {.batch = kImages,
                                                      .inputs = {{in, GradientUse::overwrite}},
                                                      .output = out,
                                                      .parameter_counts = {}});
      layer.inputs = {awkward_values(kImages * in.count(), 1)};
      layer.output_gradient = test::uniform_values(kImages * out.count(), 3);
      for (std::size_t i = 0; i < layer.output_gradient.size(); i += 5)
        layer.output_gradient[i] = -0.0F;
      layer.run();
      const Pooled want = reference(c.window, in, out, layer.inputs[0], layer.output_gradient);
      CHECK(bits_of(layer.output) == bits_of(want.output));
      CHECK(bits_of(layer.input_gradients[0]) == bits_of(want.input_gradient));
    }
  }
}

}  // namespace
}  // namespace ddprun::trainer
