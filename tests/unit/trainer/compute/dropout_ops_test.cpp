#include "trainer/compute/dropout_ops.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

namespace ddprun::trainer {
namespace {

constexpr std::size_t kElements = 40000;
constexpr DropoutPlace kPlace{0x0123456789abcdefU, 0x500000007U, 3, 5};

std::vector<bool> mask_of(double probability, const DropoutPlace& place,
                          std::size_t count = kElements) {
  const DropoutMask mask(dropout_rate(probability), place);
  std::vector<bool> kept;
  for (std::size_t e = 0; e < count; ++e) kept.push_back(mask.keep(e));
  return kept;
}

double share_of_true(const std::vector<bool>& flags) {
  double sum = 0;
  for (const bool flag : flags) sum += flag ? 1 : 0;
  return sum / static_cast<double>(flags.size());
}

double share_of_equal(const std::vector<bool>& a, const std::vector<bool>& b) {
  std::vector<bool> equal;
  for (std::size_t i = 0; i < a.size(); ++i) equal.push_back(a[i] == b[i]);
  return share_of_true(equal);
}

TEST_CASE("dropout keeps the share of elements that it was asked to keep") {
  for (const double probability : {0.1, 0.2, 0.5, 0.9}) {
    // Five standard deviations of a binomial share.
    const double deviation = std::sqrt(probability * (1 - probability) / kElements);
    REQUIRE(share_of_true(mask_of(probability, kPlace)) ==
            Approx(1 - probability).margin(5 * deviation));
  }
}

TEST_CASE("probability 0 keeps every element as it is and probability 1 drops every one to zero") {
  const DropoutMask all(dropout_rate(0.0), kPlace);
  const DropoutMask none(dropout_rate(1.0), kPlace);
  for (std::size_t e = 0; e < kElements; ++e) {
    if (all.factor(e) != 1.0F || none.factor(e) != 0.0F) FAIL("at element " << e);
  }
}

TEST_CASE("a kept element is divided by the probability of keeping it, in double until the end") {
  REQUIRE(dropout_rate(0.5).scale == 2.0F);
  REQUIRE(dropout_rate(0.1).scale == static_cast<float>(1.0 / 0.9));
  REQUIRE(dropout_rate(0.2).scale == 1.25F);
  float y = 0;
  Dropout{}(y, 3.0F, dropout_rate(0.2).scale);
  REQUIRE(y == 3.75F);
  Dropout{}(y, 3.0F, 0.0F);
  REQUIRE(y == 0.0F);
  Dropout{}(y, std::numeric_limits<float>::quiet_NaN(), 0.0F);
  REQUIRE(std::isnan(y));
}

TEST_CASE("a dropout mask is the documented function of its place") {
  // Philox with the counter and key of the header's formula, written out.
  const DropoutMask mask(dropout_rate(0.3), kPlace);
  for (std::uint32_t e = 0; e < 1000; ++e) {
    const PhiloxBlock block =
        philox({{e / 4, 0x00030005U, 7U, 5U}}, 0x89abcdefU, 0x01234567U ^ 0x64726f70U);
    if (mask.keep(e) != (unit_uniform(block.word[e % 4]) >= 0.3F)) FAIL("at element " << e);
  }
}

TEST_CASE("a dropout mask does not depend on how its elements are cut into parts") {
  const std::vector<bool> whole = mask_of(0.4, kPlace, 1000);
  const DropoutMask mask(dropout_rate(0.4), kPlace);
  // Alone and backwards, and four at a time.
  for (std::size_t e = 1000; e-- > 0;) {
    if (mask.keep(e) != whole[e]) FAIL("alone at element " << e);
  }
  for (std::uint32_t block = 0; block < 250; ++block) {
    const PhiloxBlock words = mask.words(block);
    for (std::size_t k = 0; k < 4; ++k) {
      const bool kept = mask.factor_of_word(words.word[k]) != 0.0F;
      if (kept != whole[4 * std::size_t{block} + k]) FAIL("in block " << block);
    }
  }
}

TEST_CASE("another seed, step, layer or shard gives an independent dropout mask") {
  const std::vector<bool> base = mask_of(0.5, kPlace);
  std::vector<DropoutPlace> others;
  const auto other = [&](auto change) {
    DropoutPlace place = kPlace;
    change(place);
    others.push_back(place);
  };
  other([](DropoutPlace& p) { ++p.seed; });
  other([](DropoutPlace& p) { p.seed += std::uint64_t{1} << 32; });
  other([](DropoutPlace& p) { ++p.step; });
  other([](DropoutPlace& p) { p.step += std::uint64_t{1} << 32; });
  other([](DropoutPlace& p) { ++p.layer; });
  other([](DropoutPlace& p) { p.layer = 0xffff; });
  other([](DropoutPlace& p) { ++p.shard; });
  other([](DropoutPlace& p) { p.shard = 0xffff; });
  other([](DropoutPlace& p) { std::swap(p.layer, p.shard); });
  // Independent masks of one half agree in one half: five standard deviations.
  for (const DropoutPlace& place : others) {
    REQUIRE(share_of_equal(base, mask_of(0.5, place)) ==
            Approx(0.5).margin(2.5 / std::sqrt(double{kElements})));
  }
  REQUIRE(base == mask_of(0.5, kPlace));
}

TEST_CASE("dropout's random words are not those of the initial values of the same seed") {
  const DropoutPlace place{42, 0, 0, 0};
  const DropoutMask mask(dropout_rate(0.5), place);
  const PhiloxBlock initial = philox({{0, 0, 0, 0}}, 42, 0);
  for (int k = 0; k < 4; ++k) REQUIRE(mask.words(0).word[k] != initial.word[k]);
}

TEST_CASE("2-D dropout gives each channel of each image an element of its own") {
  constexpr std::uint32_t kChannels = 6;
  std::uint64_t expected = 0;
  for (std::uint64_t image = 0; image < 5; ++image) {
    for (std::uint32_t channel = 0; channel < kChannels; ++channel) {
      REQUIRE(channel_element(image, channel, kChannels) == expected++);
    }
  }
}

TEMPLATE_TEST_CASE("dropout computes in float whatever the storage", "", float, Half, BFloat16) {
  TestType in{};
  TestType out{};
  TestType want{};
  store(in, 1.5F);
  store(want, 1.5F * dropout_rate(0.1).scale);
  Dropout{}(out, in, dropout_rate(0.1).scale);
  REQUIRE(load(out) == load(want));
}

}  // namespace
}  // namespace ddprun::trainer
