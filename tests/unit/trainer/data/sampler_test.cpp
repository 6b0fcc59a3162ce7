// The order of samples: PyTorch's, whatever the number of shards.
#include "trainer/data/sampler.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>

namespace ddprun::trainer {
namespace {

/// FNV-1a over the entries as 64-bit numbers, as recorded below.
std::uint64_t hash_of(const std::vector<std::uint32_t>& order) {
  std::uint64_t hash = 1469598103934665603ULL;
  for (const std::uint32_t value : order) hash = (hash ^ value) * 1099511628211ULL;
  return hash;
}

std::vector<std::uint32_t> permutation(std::size_t count, std::uint64_t seed) {
  std::vector<std::uint32_t> order(count);
  permute_as_torch(seed, order);
  return order;
}

/// The samples of one shard in `epoch`, step after step.
std::vector<std::uint32_t> samples_of(EpochOrder& order, int shard) {
  std::vector<std::uint32_t> samples;
  for (std::size_t step = 0; step < order.steps(); ++step) {
    for (int item = 0; item < order.batch_of(step); ++item) {
      samples.push_back(order.sample(step, shard, item));
    }
  }
  return samples;
}

TEST_CASE("a permutation is the one that torch.randperm gives") {
  // torch 2.15: torch.randperm(n, generator=torch.Generator().manual_seed(seed))
  CHECK(permutation(10, 0) == std::vector<std::uint32_t>{4, 1, 7, 5, 3, 9, 0, 8, 6, 2});
  CHECK(permutation(10, 1) == std::vector<std::uint32_t>{5, 6, 1, 2, 0, 8, 9, 3, 7, 4});
  CHECK(hash_of(permutation(10, 0)) == 0xfbf76472e0a3e8acULL);
  CHECK(hash_of(permutation(1000, 42)) == 0xbc57e4e155a375d3ULL);
  CHECK(hash_of(permutation(12345, 123456789)) == 0xceb3874c5449678bULL);
  CHECK(hash_of(permutation(60000, 7)) == 0x4e10f8e60910ec01ULL);
}

TEST_CASE("an order of one sample is that sample") {
  CHECK(permutation(1, 5) == std::vector<std::uint32_t>{0});
}

TEST_CASE("each shard sees what the replica of DistributedSampler with its number sees") {
  // torch 2.15: list(DistributedSampler(range(11), num_replicas=4, rank=r, shuffle=True, seed=3)),
  // set_epoch(2)
  EpochOrder order(11, 4, 2, 3);
  order.select(2);
  CHECK(samples_of(order, 0) == std::vector<std::uint32_t>{9, 10, 7});
  CHECK(samples_of(order, 1) == std::vector<std::uint32_t>{5, 2, 1});
  CHECK(samples_of(order, 2) == std::vector<std::uint32_t>{0, 3, 4});
  CHECK(samples_of(order, 3) == std::vector<std::uint32_t>{8, 6, 9});
}

TEST_CASE("padding repeats the whole list where there are far more shards than samples") {
  // torch 2.15: list(DistributedSampler(range(3), num_replicas=8, rank=r, shuffle=True, seed=0))
  EpochOrder order(3, 8, 4, 0);
  std::vector<std::uint32_t> first;
  for (int shard = 0; shard < 8; ++shard) first.push_back(samples_of(order, shard).at(0));
  CHECK(first == std::vector<std::uint32_t>{2, 0, 1, 2, 0, 1, 2, 0});
}

TEST_CASE("the last step takes what is left") {
  EpochOrder order(100, 2, 16, 0);  // 50 for each shard: 16 + 16 + 16 + 2
  CHECK(order.steps() == 4);
  CHECK(order.batch_of(0) == 16);
  CHECK(order.batch_of(3) == 2);
  CHECK(steps_per_epoch(100, 2, 16) == 4);
}

TEST_CASE("every sample is visited once in an epoch without padding") {
  EpochOrder order(96, 3, 8, 9);
  std::set<std::uint32_t> seen;
  for (int shard = 0; shard < 3; ++shard) {
    const auto samples = samples_of(order, shard);
    seen.insert(samples.begin(), samples.end());
  }
  CHECK(seen.size() == 96);
}

TEST_CASE("the block of a step does not depend on how many shards share it") {
  EpochOrder two(64, 2, 8, 1);
  EpochOrder four(64, 4, 4, 1);
  for (std::size_t step = 0; step < two.steps(); ++step) {
    std::set<std::uint32_t> block_of_two;
    std::set<std::uint32_t> block_of_four;
    for (int item = 0; item < 8; ++item) {
      for (int shard = 0; shard < 2; ++shard) block_of_two.insert(two.sample(step, shard, item));
    }
    for (int item = 0; item < 4; ++item) {
      for (int shard = 0; shard < 4; ++shard) block_of_four.insert(four.sample(step, shard, item));
    }
    CHECK(block_of_two == block_of_four);
  }
}

TEST_CASE(
    "epochs have different orders, and an order comes back when its epoch is selected again") {
  EpochOrder order(50, 2, 5, 4);
  order.select(0);
  const auto first = samples_of(order, 0);
  order.select(1);
  CHECK(samples_of(order, 0) != first);
  order.select(0);
  CHECK(samples_of(order, 0) == first);
}

TEST_CASE("the samples of some shards, one after the other, are those of their steps and items") {
  EpochOrder order(50, 4, 5, 3);  // 13 for each shard: 5 + 5 + 3
  order.select(2);
  REQUIRE(order.steps() == 3);
  for (std::size_t first_step = 0; first_step < 3; ++first_step) {
    const ShardSamples mine(order, 1, 2, first_step);
    std::vector<std::uint32_t> expected;
    for (std::size_t step = first_step; step < 3; ++step) {
      CHECK(mine.place(step) == expected.size());
      for (int shard = 1; shard < 3; ++shard)
        for (int item = 0; item < order.batch_of(step); ++item)
          expected.push_back(order.sample(step, shard, item));
    }
    REQUIRE(mine.count() == expected.size());
    for (std::size_t place = 0; place < expected.size(); ++place)
      CHECK(mine.sample(place) == expected[place]);
  }
}

}  // namespace
}  // namespace ddprun::trainer
