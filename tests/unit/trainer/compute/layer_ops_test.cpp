#include "trainer/compute/layer_ops.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

namespace ddprun::trainer {
namespace {

/// Relative spacing of the storage type: the only rounding beyond float's.
template <class T>
constexpr double kSpacing = 0;
template <>
constexpr double kSpacing<Half> = 0x1p-11;
template <>
constexpr double kSpacing<BFloat16> = 0x1p-8;

template <class T>
T activation_input(double value) {
  T result{};
  store(result, static_cast<float>(value));
  return result;
}

double exact_gelu(double x) { return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0))); }
double exact_tanh(double x) { return std::tanh(x); }

template <class Function>
double slope(Function function, double x) {
  constexpr double kStep = 1e-5;
  return (function(x + kStep) - function(x - kStep)) / (2 * kStep);
}

TEMPLATE_TEST_CASE("GELU and tanh and their gradients agree with double precision", "", float, Half,
                   BFloat16) {
  constexpr double kGradient = 1.5;
  const auto gradient = activation_input<TestType>(kGradient);
  for (double x = -12.0; x <= 12.0; x += 0.0137) {
    const auto input = activation_input<TestType>(x);
    const auto at = static_cast<double>(load(input));
    // Halves below 2^-14 are spaced by 2^-24.
    const auto near = [](double want, double float_error) {
      return Approx(want).epsilon(kSpacing<TestType>).margin(float_error + 0x1p-25);
    };
    TestType out{};
    INFO("at " << at);
    Gelu{}(out, input);
    REQUIRE(static_cast<double>(load(out)) == near(exact_gelu(at), 1.2e-7 * std::abs(at)));
    GeluBackward{}(out, gradient, input);
    REQUIRE(static_cast<double>(load(out)) == near(kGradient * slope(exact_gelu, at), 4e-7));
    Tanh{}(out, input);
    REQUIRE(static_cast<double>(load(out)) == near(exact_tanh(at), 1.2e-7));
    // By the output as it was stored: its rounding is part of the gradient.
    const auto y = static_cast<double>(load(out));
    TanhBackward{}(out, gradient, out);
    REQUIRE(static_cast<double>(load(out)) == near(kGradient * (1.0 - y * y), 3e-7));
    REQUIRE(kGradient * (1.0 - y * y) ==
            Approx(kGradient * slope(exact_tanh, at)).margin(4 * kSpacing<TestType> + 4e-7));
  }
}

TEST_CASE("GELU is x itself far above zero, zero far below, and never hides a non-finite input") {
  const auto gelu = [](float x) {
    float y = 0;
    Gelu{}(y, x);
    return y;
  };
  const auto slope_of_gelu = [](float x) {
    float y = 0;
    GeluBackward{}(y, 1.0F, x);
    return y;
  };
  const float largest = std::numeric_limits<float>::max();
  REQUIRE(gelu(0.0F) == 0.0F);
  REQUIRE(gelu(30.0F) == 30.0F);
  REQUIRE(gelu(largest) == largest);
  REQUIRE(gelu(-30.0F) == 0.0F);
  REQUIRE(gelu(-largest) == 0.0F);
  REQUIRE(slope_of_gelu(0.0F) == 0.5F);
  REQUIRE(slope_of_gelu(largest) == 1.0F);
  REQUIRE(slope_of_gelu(-largest) == 0.0F);
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float x : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
    REQUIRE(is_non_finite(gelu(x)));
    REQUIRE(is_non_finite(slope_of_gelu(x)));
  }
}

TEST_CASE("tanh saturates without a gradient, and a nan passes forward and backward") {
  float y = 0;
  Tanh{}(y, -50.0F);
  REQUIRE(y == -1.0F);
  TanhBackward{}(y, 3.0F, y);
  REQUIRE(y == 0.0F);
  Tanh{}(y, std::numeric_limits<float>::quiet_NaN());
  REQUIRE(std::isnan(y));
  TanhBackward{}(y, 3.0F, y);
  REQUIRE(std::isnan(y));
}

TEST_CASE("an output pixel reads what half-pixel centres give it") {
  for (const int inputs : {1, 2, 7}) {
    for (int o = 0; o < 2 * inputs; ++o) {
      // PyTorch's rule, with the input's edges as the limits.
      const double at = (o + 0.5) / 2 - 0.5;
      std::vector<double> want(static_cast<std::size_t>(inputs));
      for (const int pixel : {static_cast<int>(std::floor(at)), static_cast<int>(std::ceil(at))}) {
        const int inside = std::min(std::max(pixel, 0), inputs - 1);
        want[static_cast<std::size_t>(inside)] += 1 - std::abs(at - pixel);
      }
      const UpsampleSource source = upsample_source(o, inputs);
      std::vector<double> got(static_cast<std::size_t>(inputs));
      got[static_cast<std::size_t>(source.near)] += static_cast<double>(upsample_mix(1, 0));
      got[static_cast<std::size_t>(source.far)] += static_cast<double>(upsample_mix(0, 1));
      INFO("output " << o << " of " << inputs << " inputs");
      CHECK(got == want);
    }
  }
}

TEST_CASE("an input pixel gathers from the outputs that read it, with the same weights") {
  const int inputs = GENERATE(1, 2, 3, 8);
  for (int i = 0; i < inputs; ++i) {
    std::vector<double> want(2 * static_cast<std::size_t>(inputs));
    for (int o = 0; o < 2 * inputs; ++o) {
      const UpsampleSource source = upsample_source(o, inputs);
      if (source.near == i) want[static_cast<std::size_t>(o)] += 0.75;
      if (source.far == i) want[static_cast<std::size_t>(o)] += 0.25;
    }
    std::vector<double> got(want.size());
    const UpsampleReaders readers = upsample_readers(i, inputs);
    for (int k = 0; k < 4; ++k) {
      got[static_cast<std::size_t>(readers.pixel[k])] += static_cast<double>(upsample_gather(
          k == 0 ? 1.0F : 0.0F, k == 1 ? 1.0F : 0.0F, k == 2 ? 1.0F : 0.0F, k == 3 ? 1.0F : 0.0F));
    }
    INFO("input " << i << " of " << inputs);
    CHECK(got == want);
  }
}

}  // namespace

}  // namespace ddprun::trainer
