#include "trainer/comm/shard_tree.hpp"

#include <bit>
#include <catch2/catch.hpp>

namespace ddprun::trainer {
namespace {

TEST_CASE("the left child has the largest power of two below the count") {
  CHECK(left_count(2) == 1);
  CHECK(left_count(3) == 2);
  CHECK(left_count(4) == 2);
  CHECK(left_count(6) == 4);
  CHECK(left_count(8) == 4);
  CHECK(left_count(9) == 8);
}

TEST_CASE(
    "the runs of all ranks cover every shard once, in order, with lengths that differ by one at "
    "most") {
  for (int shards = 1; shards <= 40; ++shards) {
    for (int world = 1; world <= shards; ++world) {
      int next = 0;
      for (int rank = 0; rank < world; ++rank) {
        const ShardRun run = shard_run(shards, world, rank);
        CHECK(run.first == next);
        CHECK((run.count == shards / world || run.count == shards / world + 1));
        if (rank > 0) CHECK(run.count <= shard_run(shards, world, rank - 1).count);
        next += run.count;
      }
      CHECK(next == shards);
    }
  }
}

TEST_CASE("one rank alone has the whole tree as its only local node") {
  for (int shards = 1; shards <= 40; ++shards) {
    CHECK(local_nodes(shards, {0, shards}) == std::vector<TreeNode>{{0, shards}});
  }
}

TEST_CASE("with power-of-two runs every rank has one local node") {
  CHECK(local_nodes(8, shard_run(8, 4, 1)) == std::vector<TreeNode>{{2, 2}});
  CHECK(local_nodes(16, shard_run(16, 4, 3)) == std::vector<TreeNode>{{12, 4}});
}

TEST_CASE("a run across a boundary of the tree is split where the tree splits") {
  CHECK(local_nodes(6, shard_run(6, 2, 0)) == std::vector<TreeNode>{{0, 2}, {2, 1}});
  CHECK(local_nodes(6, shard_run(6, 2, 1)) == std::vector<TreeNode>{{3, 1}, {4, 2}});
  CHECK(local_nodes(4, shard_run(4, 3, 0)) == std::vector<TreeNode>{{0, 2}});
  CHECK(local_nodes(8, {1, 6}) == std::vector<TreeNode>{{1, 1}, {2, 2}, {4, 2}, {6, 1}});
}

TEST_CASE("local nodes cover their run exactly and stay within twice the logarithm") {
  for (int shards = 1; shards <= 64; ++shards) {
    for (int first = 0; first < shards; ++first) {
      for (int count = 1; first + count <= shards; ++count) {
        const std::vector<TreeNode> nodes = local_nodes(shards, {first, count});
        int next = first;
        for (const TreeNode& node : nodes) {
          REQUIRE(node.first == next);
          next += node.count;
        }
        REQUIRE(next == first + count);
        const int logarithm = std::bit_width(static_cast<unsigned>(shards));
        REQUIRE(static_cast<int>(nodes.size()) <= 2 * logarithm);
      }
    }
  }
}

}  // namespace
}  // namespace ddprun::trainer
