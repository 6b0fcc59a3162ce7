#include "trainer/compute/philox.hpp"

#include <catch2/catch.hpp>

namespace ddprun::trainer {
namespace {

void require_block(const PhiloxBlock& got, const PhiloxBlock& want) {
  for (int i = 0; i < 4; ++i) REQUIRE(got.word[i] == want.word[i]);
}

TEST_CASE("Philox 4x32-10 gives the published known answers") {
  require_block(philox({{0, 0, 0, 0}}, 0, 0),
                {{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}});
  constexpr std::uint32_t kOnes = 0xffffffffU;
  require_block(philox({{kOnes, kOnes, kOnes, kOnes}}, kOnes, kOnes),
                {{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU}});
  require_block(
      philox({{0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}}, 0xa4093822U, 0x299f31d0U),
      {{0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U}});
}

TEST_CASE("unit uniforms are at least 0 and below 1") {
  REQUIRE(unit_uniform(0) == 0.0F);
  REQUIRE(unit_uniform(0xffffffffU) < 1.0F);
  REQUIRE(unit_uniform(0x80000000U) == 0.5F);
}

}  // namespace
}  // namespace ddprun::trainer
