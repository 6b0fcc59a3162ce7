#include "trainer/compute/loss_ops.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace ddprun::trainer {
namespace {

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
