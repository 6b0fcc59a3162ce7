#include "trainer/compute/numeric.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>

namespace ddprun::trainer {
namespace {

bool same(float a, float b) {
  return float_bits(a) == float_bits(b) || (std::isnan(a) && std::isnan(b));
}

TEST_CASE("rounding to half gives what the compiler's own half type stores") {
  // Every half, the middle between it and its neighbour, and the floats next to that middle.
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits);
    Half half = 0;
    std::memcpy(&half, &low, sizeof half);
    const std::uint32_t at = float_bits(static_cast<float>(half));
    for (const std::uint32_t distance : {0x0U, 0x1U, 0xfffU, 0x1000U, 0x1001U, 0x1fffU}) {
      const float value = bits_float(at + distance);
      if (!same(round_to_half(value), static_cast<float>(static_cast<Half>(value)))) {
        FAIL("at " << value << " bits " << at + distance);
      }
    }
  }
  // And a walk through all floats.
  for (std::uint64_t bits = 0; bits < 0x100000000U; bits += 4099) {
    const float value = bits_float(static_cast<std::uint32_t>(bits));
    if (!same(round_to_half(value), static_cast<float>(static_cast<Half>(value)))) {
      FAIL("at " << value << " bits " << bits);
    }
  }
  REQUIRE(round_to_half(65519.0F) == 65504.0F);
  REQUIRE(std::isinf(round_to_half(65520.0F)));
  REQUIRE(std::isnan(round_to_half(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("rounding to bfloat16 goes to the nearest, ties to even, and keeps nan a nan") {
  REQUIRE(round_to_bfloat16(1.0F) == 1.0F);
  REQUIRE(round_to_bfloat16(1.0F + 1.0F / 256) == 1.0F);               // tie, even below
  REQUIRE(round_to_bfloat16(1.0F + 3.0F / 256) == 1.0F + 4.0F / 256);  // tie, even above
  REQUIRE(round_to_bfloat16(1.0F + 1.1F / 256) == 1.0F + 2.0F / 256);
  REQUIRE(std::isinf(round_to_bfloat16(std::numeric_limits<float>::max())));
  REQUIRE(std::isnan(round_to_bfloat16(bits_float(0x7f800001U))));
  for (std::uint64_t bits = 0; bits < 0x100000000U; bits += 4099) {
    const float value = bits_float(static_cast<std::uint32_t>(bits));
    BFloat16 stored{};
    store(stored, value);
    REQUIRE(same(load(stored), round_to_bfloat16(value)));
    if (std::isfinite(value) && std::isfinite(load(stored))) {
      REQUIRE(std::abs(load(stored) - value) <= std::max(std::abs(value) / 256, 0x1p-134F));
    }
  }
}

TEST_CASE("our exponential is within 1e-7 of the exact one, and total") {
  double worst = 0;
  for (float x = -87.0F; x < 88.0F; x += 0.0007F) {
    const double exact = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(static_cast<double>(exponential(x)) - exact) / exact);
  }
  REQUIRE(worst < 1.3e-7);
  REQUIRE(exponential(0.0F) == 1.0F);
  REQUIRE(exponential(-1e30F) == 0.0F);
  REQUIRE(exponential(-std::numeric_limits<float>::infinity()) == 0.0F);
  REQUIRE(std::isnan(exponential(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("our logarithm is within 2.5e-7 of the exact one") {
  double worst = 0;
  for (float x = 1.0F; x < 2000.0F; x *= 1.0003F) {
    const double exact = std::log(static_cast<double>(x));
    worst = std::max(
        worst, std::abs(static_cast<double>(natural_logarithm(x)) - exact) / std::max(exact, 0.1));
  }
  REQUIRE(worst < 2.5e-7);
  REQUIRE(natural_logarithm(1.0F) == 0.0F);
  REQUIRE(natural_logarithm(0x1p-20F) == Approx(-13.862943611));
  REQUIRE(std::isnan(natural_logarithm(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("inf and nan are seen, the largest finite number is not") {
  REQUIRE(is_non_finite(std::numeric_limits<float>::infinity()));
  REQUIRE(is_non_finite(-std::numeric_limits<float>::infinity()));
  REQUIRE(is_non_finite(std::numeric_limits<float>::quiet_NaN()));
  REQUIRE_FALSE(is_non_finite(std::numeric_limits<float>::max()));
  REQUIRE_FALSE(is_non_finite(std::numeric_limits<float>::denorm_min()));
}

}  // namespace
}  // namespace ddprun::trainer
