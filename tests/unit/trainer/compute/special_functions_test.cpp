#include "trainer/compute/special_functions.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>

namespace ddprun::trainer {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::uint32_t kStride = 4099;  // prime: every exponent, all low bits

/// Distance in units of the spacing of floats at `exact`.
double ulps(float got, double exact) {
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::abs(static_cast<double>(got) - exact) /
         std::ldexp(1.0, std::max(exponent, -125) - 24);
}

/// The largest error over a dense sample of the floats from 0 to `last`, of the sign given.
template <class Ours, class Exact>
double worst(float sign, float last, Ours ours, Exact exact) {
  double result = 0;
  for (std::uint32_t bits = 0; bits <= float_bits(last); bits += kStride) {
    const float x = sign * bits_float(bits);
    const double error = ulps(ours(x), exact(static_cast<double>(x)));
    result = std::max(result, std::isnan(error) ? 1e30 : error);
  }
  return result;
}

template <class Function>
void require_odd(Function function) {
  for (std::uint32_t bits = 0; bits <= 0x7f800000U; bits += kStride) {
    const float x = bits_float(bits);
    if (float_bits(function(-x)) != (float_bits(function(x)) ^ 0x80000000U)) FAIL("at " << x);
  }
}

TEST_CASE("our hyperbolic tangent is within 1.6 ulp of the exact one, odd and total") {
  const auto exact = [](double x) { return std::tanh(x); };
  REQUIRE(worst(1.0F, std::numeric_limits<float>::max(), hyperbolic_tangent, exact) < 1.6);
  REQUIRE(worst(1.0F, 0.001F, hyperbolic_tangent, exact) < 1.0);  // relative, also when tiny
  require_odd(hyperbolic_tangent);
  REQUIRE(float_bits(hyperbolic_tangent(0.0F)) == 0U);
  REQUIRE(hyperbolic_tangent(std::numeric_limits<float>::denorm_min()) ==
          std::numeric_limits<float>::denorm_min());
  REQUIRE(hyperbolic_tangent(kInfinity) == 1.0F);
  REQUIRE(hyperbolic_tangent(-kInfinity) == -1.0F);
  REQUIRE(std::isnan(hyperbolic_tangent(kNan)));
}

TEST_CASE("our error function is within 1.1 ulp of the exact one, odd and total") {
  const auto exact = [](double x) { return std::erf(x); };
  REQUIRE(worst(1.0F, std::numeric_limits<float>::max(), error_function, exact) < 1.1);
  require_odd(error_function);
  REQUIRE(float_bits(error_function(0.0F)) == 0U);
  REQUIRE(error_function(kInfinity) == 1.0F);
  REQUIRE(error_function(-kInfinity) == -1.0F);
  REQUIRE(std::isnan(error_function(kNan)));
}

TEST_CASE("the two pieces of a special function meet without a jump") {
  // The functions rise: neighbours on the two sides of a seam may not fall by more than an ulp.
  for (const float seam : {0.5625F, 1.0F}) {
    const float below = std::nextafter(seam, 0.0F);
    REQUIRE(hyperbolic_tangent(seam) - hyperbolic_tangent(below) >= -0x1p-24F);
    REQUIRE(error_function(seam) - error_function(below) >= -0x1p-24F);
  }
}

TEST_CASE("our sigmoid is within 2.5 ulp of the exact one and never overflows") {
  const auto exact = [](double x) { return 1.0 / (1.0 + std::exp(-x)); };
  REQUIRE(worst(1.0F, std::numeric_limits<float>::max(), sigmoid, exact) < 2.5);
  REQUIRE(worst(-1.0F, 87.0F, sigmoid, exact) < 2.5);
  REQUIRE(sigmoid(0.0F) == 0.5F);
  REQUIRE(sigmoid(kInfinity) == 1.0F);
  REQUIRE(sigmoid(-kInfinity) == 0.0F);
  REQUIRE(sigmoid(std::numeric_limits<float>::lowest()) == 0.0F);
  REQUIRE(std::isnan(sigmoid(kNan)));
}

TEST_CASE("softplus is precise where it is tiny and finite where e^x is not") {
  const auto tail = [](double x) { return std::log1p(std::exp(-std::abs(x))); };
  REQUIRE(worst(1.0F, 87.0F, softplus_tail, tail) < 1.7);
  const auto exact = [&](double x) { return std::max(x, 0.0) + tail(x); };
  REQUIRE(worst(1.0F, std::numeric_limits<float>::max(), softplus, exact) < 2.0);
  REQUIRE(worst(-1.0F, 87.0F, softplus, exact) < 2.0);
  REQUIRE(softplus(1e30F) == 1e30F);
  REQUIRE(softplus(-1e30F) == 0.0F);
  REQUIRE(softplus(kInfinity) == kInfinity);
  REQUIRE(softplus(-kInfinity) == 0.0F);
  REQUIRE(softplus_tail(-3.0F) == softplus_tail(3.0F));
  REQUIRE(std::isnan(softplus(kNan)));
}

TEST_CASE("the reciprocal square root is the quotient of two exactly rounded operations") {
  for (std::uint32_t bits = 1; bits < 0x7f800000U; bits += kStride) {
    const float x = bits_float(bits);
    // A root in double, rounded to float, is the exactly rounded root in float.
    const auto root = static_cast<float>(std::sqrt(static_cast<double>(x)));
    if (reciprocal_square_root(x) != 1.0F / root) FAIL("at " << x);
  }
  REQUIRE(reciprocal_square_root(0.25F) == 2.0F);
  REQUIRE(reciprocal_square_root(0.0F) == kInfinity);
  REQUIRE(reciprocal_square_root(kInfinity) == 0.0F);
  REQUIRE(std::isnan(reciprocal_square_root(-1.0F)));
}

}  // namespace
}  // namespace ddprun::trainer
