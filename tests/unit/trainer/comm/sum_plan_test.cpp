#include "trainer/comm/sum_plan.hpp"

#include <catch2/catch.hpp>

#include "tests/unit/trainer/comm/tree_reference.hpp"
#include "trainer/host/float_sum.hpp"

namespace ddprun::trainer {
namespace {

using test::rough_floats;
using test::same_bits;
using test::tree_sum;

/// Arenas of all ranks as they are when backward has ended: each rank's local nodes are summed.
struct World {
  World(const std::vector<std::vector<float>>& shards, int world_size) {
    const int count = static_cast<int>(shards.size());
    for (int rank = 0; rank < world_size; ++rank) {
      auto& slots = arenas.emplace_back();
      for (const TreeNode& node : local_nodes(count, shard_run(count, world_size, rank))) {
        slots.push_back(tree_sum(shards, node.first, node.count));
      }
    }
  }

  void reduce(const SumPlan& plan, std::size_t begin, std::size_t end) {
    std::vector<const float*> inputs;
    std::vector<float*> outputs;
    for (const PlanInput& input : plan.inputs()) {
      inputs.push_back(
          arenas[static_cast<std::size_t>(input.rank)][static_cast<std::size_t>(input.slot)]
              .data());
    }
    for (auto& slots : arenas) outputs.push_back(slots[0].data());
    std::vector<float> scratch((static_cast<std::size_t>(plan.scratch_blocks()) + 1) *
                               SumPlan::kBlockFloats);
    plan.sum(inputs, outputs, begin, end, scratch);
  }

  std::vector<std::vector<std::vector<float>>> arenas;  // [rank][slot]
};

TEST_CASE("the sum has the same bits for every number of shards up to 16 and every world size") {
  const std::size_t floats = SumPlan::kBlockFloats + 37;  // more than one block, and a ragged tail
  for (int count = 1; count <= 16; ++count) {
    std::vector<std::vector<float>> shards;
    for (int shard = 0; shard < count; ++shard) {
      shards.push_back(rough_floats(floats, static_cast<std::uint32_t>(100 * count + shard)));
    }
    const std::vector<float> expected = tree_sum(shards, 0, count);
    for (int world_size = 1; world_size <= count; ++world_size) {
      CAPTURE(count, world_size);
      World world(shards, world_size);
      world.reduce(SumPlan(count, world_size), 0, floats);
      for (const auto& slots : world.arenas) REQUIRE(same_bits(slots[0], expected));
    }
  }
}

TEST_CASE("the floats of these tests are rough enough to notice another order of additions") {
  std::vector<std::vector<float>> shards;
  for (std::uint32_t shard = 0; shard < 4; ++shard) shards.push_back(rough_floats(256, shard));
  std::vector<float> left_to_right = shards[0];
  for (std::size_t shard = 1; shard < 4; ++shard) {
    for (std::size_t i = 0; i < 256; ++i) left_to_right[i] += shards[shard][i];
  }
  CHECK_FALSE(same_bits(left_to_right, tree_sum(shards, 0, 4)));
}

TEST_CASE(
    "pieces of a sum, taken in any order, are the whole sum, and nothing outside a piece is "
    "touched") {
  const std::size_t floats = 3000;
  std::vector<std::vector<float>> shards;
  for (std::uint32_t shard = 0; shard < 7; ++shard) shards.push_back(rough_floats(floats, shard));
  const std::vector<float> expected = tree_sum(shards, 0, 7);
  const SumPlan plan(7, 3);
  World world(shards, 3);
  const std::vector<float> before = world.arenas[1][0];
  world.reduce(plan, 2000, 3000);
  CHECK(std::equal(before.begin(), before.begin() + 2000, world.arenas[1][0].begin()));
  world.reduce(plan, 0, 16);
  world.reduce(plan, 16, 2000);
  for (const auto& slots : world.arenas) CHECK(same_bits(slots[0], expected));
}

TEST_CASE("partial sums of 64 ranks need few scratch blocks") {
  CHECK(SumPlan(64, 64).scratch_blocks() <= 6);
}

TEST_CASE("the sum loops take every length, and outputs that are inputs") {
  for (std::size_t count = 0; count <= 70; ++count) {
    const std::vector<float> left = rough_floats(count, 1);
    const std::vector<float> right = rough_floats(count, 2);
    std::vector<float> expected(count);
    for (std::size_t i = 0; i < count; ++i) expected[i] = left[i] + right[i];

    std::vector<float> in_place = left;
    add_into(in_place.data(), right.data(), count);
    CHECK(same_bits(in_place, expected));

    std::vector<float> out = right;
    add_to(out.data(), left.data(), out.data(), count);
    CHECK(same_bits(out, expected));

    std::vector<float> first = left;
    std::vector<float> second = right;
    add_to_both(first.data(), second.data(), first.data(), second.data(), count);
    CHECK(same_bits(first, expected));
    CHECK(same_bits(second, expected));
  }
}

}  // namespace
}  // namespace ddprun::trainer
