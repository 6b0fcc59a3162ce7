#include "trainer/compute/ops.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

namespace ddprun::trainer {
namespace {

template <class T>
T stored(float value) {
  T result{};
  store(result, value);
  return result;
}

TEMPLATE_TEST_CASE("element-wise functors compute in float whatever the storage", "", float, Half,
                   BFloat16) {
  TestType out{};
  SECTION("ReLU keeps positive values and stops gradients where its output is zero") {
    Relu{}(out, stored<TestType>(-2.0F));
    REQUIRE(load(out) == 0.0F);
    Relu{}(out, stored<TestType>(2.0F));
    REQUIRE(load(out) == 2.0F);
    ReluBackward{}(out, stored<TestType>(3.0F), stored<TestType>(2.0F));
    REQUIRE(load(out) == 3.0F);
    ReluBackward{}(out, stored<TestType>(3.0F), stored<TestType>(0.0F));
    REQUIRE(load(out) == 0.0F);
  }
  SECTION("a nan passes through ReLU, forward and backward") {
    const auto nan = stored<TestType>(std::numeric_limits<float>::quiet_NaN());
    Relu{}(out, nan);
    REQUIRE(std::isnan(load(out)));
    ReluBackward{}(out, stored<TestType>(3.0F), nan);
    REQUIRE(load(out) == 3.0F);
  }
  SECTION("addition") {
    Add{}(out, stored<TestType>(1.5F), stored<TestType>(2.0F));
    REQUIRE(load(out) == 3.5F);
  }
  SECTION("the shadow of a master weight is that weight rounded to the storage") {
    CastShadow{}(out, 1.0F / 3);
    REQUIRE(load(out) == load(stored<TestType>(1.0F / 3)));
  }
  SECTION("softmax cross-entropy agrees with a double-precision reference") {
    const std::vector<double> values{0.5, -1.25, 3.0, 0.0, -20.0};
    std::vector<TestType> logits;
    double sum = 0;
    for (const double value : values) {
      logits.push_back(stored<TestType>(static_cast<float>(value)));
      sum += std::exp(value);
    }
    std::vector<TestType> gradient(values.size());
    const RowResult result = SoftmaxCrossEntropy{}(logits.data(), 5, 3, 2.0F, gradient.data());
    REQUIRE(result.loss == Approx(std::log(sum) - values[3]).epsilon(1e-6));
    REQUIRE_FALSE(result.correct);
    const double spacing = std::is_same_v<TestType, float> ? 1e-7 : 1.0 / 256;
    for (std::size_t c = 0; c < values.size(); ++c) {
      const double want = 2.0 * (std::exp(values[c]) / sum - (c == 3 ? 1 : 0));
      REQUIRE(static_cast<double>(load(gradient[c])) == Approx(want).margin(spacing));
    }
    REQUIRE(SoftmaxCrossEntropy{}(logits.data(), 5, 2, 2.0F, gradient.data()).correct);
  }
  SECTION("softmax cross-entropy of an overflowed row is nan, never a hit") {
    std::vector<TestType> logits(3, stored<TestType>(std::numeric_limits<float>::infinity()));
    std::vector<TestType> gradient(3);
    const RowResult result = SoftmaxCrossEntropy{}(logits.data(), 3, 0, 1.0F, gradient.data());
    REQUIRE(std::isnan(result.loss));
    REQUIRE(is_non_finite(load(gradient[0])));
    logits.assign(3, stored<TestType>(std::numeric_limits<float>::quiet_NaN()));
    REQUIRE_FALSE(
        SoftmaxCrossEntropy{}(logits.data(), 3, 0, 1.0F, static_cast<TestType*>(nullptr)).correct);
  }
}

/// PyTorch's documented formula in double, -ln sigmoid(x) written as ln(1 + e^-x).
double exact_cross_entropy(double x, double target, double weight) {
  return weight * target * std::log1p(std::exp(-x)) + (1.0 - target) * std::log1p(std::exp(x));
}

TEMPLATE_TEST_CASE("binary cross-entropy and its gradient agree with double precision", "", float,
                   Half, BFloat16) {
  // The loss is float whatever the storage; the gradient is rounded to it.
  const double spacing = std::is_same_v<TestType, float>  ? 0x1p-21
                         : std::is_same_v<TestType, Half> ? 0x1p-10
                                                          : 0x1p-7;
  constexpr float kFactor = 4.0F;
  for (const float weight : {1.0F, 0.25F, 7.5F}) {
    for (const float target : {0.0F, 0.3F, 1.0F}) {
      for (float value = -30.0F; value <= 30.0F; value += 0.37F) {
        TestType logit{};
        store(logit, value);
        const auto x = static_cast<double>(load(logit));
        const auto t = static_cast<double>(target);
        const auto w = static_cast<double>(weight);
        INFO("logit " << x << " target " << t << " weight " << w);
        REQUIRE(static_cast<double>(BinaryCrossEntropy{weight}(logit, target)) ==
                Approx(exact_cross_entropy(x, t, w)).epsilon(0x1p-21));
        // Halves below 2^-14 are spaced by 2^-24. Two terms of up to the weight are subtracted,
        // which compilers for some processors round once and for others twice.
        TestType gradient{};
        BinaryCrossEntropyBackward{weight, kFactor}(gradient, logit, target);
        constexpr double kStep = 1e-5;
        const double slope =
            (exact_cross_entropy(x + kStep, t, w) - exact_cross_entropy(x - kStep, t, w)) /
            (2 * kStep);
        REQUIRE(static_cast<double>(load(gradient)) ==
                Approx(4.0 * slope)
                    .epsilon(spacing)
                    .margin(0x1p-24 * std::max(1.0, 4.0 * w) + 1e-9 * w * std::abs(x)));
      }
    }
  }
}

TEST_CASE("binary cross-entropy is precise where the prediction is nearly right") {
  // Loss and gradient are e^-20 to a float's precision, where p rounds to 1 in float.
  REQUIRE(static_cast<double>(BinaryCrossEntropy{1.0F}(20.0F, 1.0F)) ==
          Approx(std::log1p(std::exp(-20.0))).epsilon(1e-6));
  float gradient = 0;
  BinaryCrossEntropyBackward{3.0F, 1.0F}(gradient, 20.0F, 1.0F);
  REQUIRE(static_cast<double>(gradient) == Approx(-3.0 / (1.0 + std::exp(20.0))).epsilon(1e-6));
  BinaryCrossEntropyBackward{3.0F, 1.0F}(gradient, -20.0F, 0.0F);
  REQUIRE(static_cast<double>(gradient) == Approx(1.0 / (1.0 + std::exp(20.0))).epsilon(1e-6));
}

TEST_CASE("binary cross-entropy of large logits is linear where wrong and zero where right") {
  const BinaryCrossEntropy loss{2.0F};
  REQUIRE(loss(1e30F, 1.0F) == 0.0F);
  REQUIRE(loss(1e30F, 0.0F) == 1e30F);
  REQUIRE(loss(-1e30F, 1.0F) == 2e30F);
  REQUIRE(loss(-1e30F, 0.0F) == 0.0F);
  float gradient = 0;
  const BinaryCrossEntropyBackward backward{2.0F, 1.0F};
  backward(gradient, 1e30F, 1.0F);
  REQUIRE(gradient == 0.0F);
  backward(gradient, 1e30F, 0.0F);
  REQUIRE(gradient == 1.0F);
  backward(gradient, -1e30F, 1.0F);
  REQUIRE(gradient == -2.0F);
}

TEST_CASE("a logit that is not finite gives a loss that is not, whatever the target") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float logit : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
    for (const float target : {0.0F, 0.5F, 1.0F}) {
      REQUIRE(is_non_finite(BinaryCrossEntropy{2.0F}(logit, target)));
      REQUIRE(is_non_finite(BinaryCrossEntropy{0.0F}(logit, target)));
    }
  }
}

}  // namespace

}  // namespace ddprun::trainer
