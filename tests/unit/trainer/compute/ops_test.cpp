#include "trainer/compute/ops.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
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

}  // namespace
}  // namespace ddprun::trainer
