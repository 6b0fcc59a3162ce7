#include "trainer/comm/chain_accumulator.hpp"

#include <catch2/catch.hpp>
#include <vector>

namespace ddprun::trainer {
namespace {

constexpr std::size_t kChainFloats = 100;

TEST_CASE("the shards of a chain are added in one arena, and are final with the last one") {
  std::vector<float> arena(kChainFloats);
  ChainAccumulator sums({2, 3}, arena);
  for (int step = 0; step < 2; ++step) {
    sums.reset();
    for (const int shard : {2, 3, 4}) {
      CAPTURE(step, shard);
      const GradientArena gradients = sums.begin(shard);
      CHECK(gradients.floats.data() == arena.data());
      CHECK(gradients.floats.size() == kChainFloats);
      CHECK(gradients.accumulates == (shard > 2));  // the first one overwrites the last step's
      const bool is_last = shard == 4;
      CHECK(sums.final_up_to(shard, 30) == (is_last ? 30 : 0));
      CHECK(sums.final_up_to(shard, kChainFloats) == (is_last ? kChainFloats : 0));
    }
  }
}

TEST_CASE("a rank with one shard adds nothing") {
  std::vector<float> arena(kChainFloats);
  ChainAccumulator sums({5, 1}, arena);
  CHECK_FALSE(sums.begin(5).accumulates);
  CHECK(sums.final_up_to(5, 70) == 70);
}

}  // namespace
}  // namespace ddprun::trainer
