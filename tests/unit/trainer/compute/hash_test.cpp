#include "trainer/compute/buffer.hpp"

#include <catch2/catch.hpp>
#include <vector>

namespace ddprun::trainer {
namespace {

TEST_CASE("the hash is the documented one") {
  // The numbers come from a Python program written after hash_floats()'s comment.
  REQUIRE(hash_text(hash_floats({})) == "164381959b920bee");
  const std::vector<float> three{1.0F, -2.5F, 0.0F};
  REQUIRE(hash_text(hash_floats(three)) == "1220494a1d18b158");
}

TEST_CASE("the hash sees every bit, the order, the sign of zero and the length") {
  const std::vector<float> base{1, 2, 3, 4, 5};
  const std::uint64_t hash = hash_floats(base);
  for (std::size_t i = 0; i < base.size(); ++i) {
    std::vector<float> other = base;
    other[i] = -other[i];
    REQUIRE(hash_floats(other) != hash);
  }
  REQUIRE(hash_floats(std::vector<float>{2, 1, 3, 4, 5}) != hash);
  REQUIRE(hash_floats(std::vector<float>{0.0F}) != hash_floats(std::vector<float>{-0.0F}));
  REQUIRE(hash_floats(std::vector<float>{0.0F}) != hash_floats(std::vector<float>{0.0F, 0.0F}));
}

TEST_CASE("a hash is printed as sixteen hexadecimal digits") {
  REQUIRE(hash_text(0) == "0000000000000000");
  REQUIRE(hash_text(0xfedcba9876543210U) == "fedcba9876543210");
}

}  // namespace
}  // namespace ddprun::trainer
