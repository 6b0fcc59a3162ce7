#include "trainer/comm/shard_tree.hpp"

#include <algorithm>
#include <bit>

#include "base/assert.hpp"

namespace ddprun::trainer {
namespace {

void collect(TreeNode node, ShardRun run, std::vector<TreeNode>& nodes) {
  const int node_end = node.first + node.count;
  const int run_end = run.first + run.count;
  if (node_end <= run.first || run_end <= node.first) return;
  if (run.first <= node.first && node_end <= run_end) {
    nodes.push_back(node);
    return;
  }
  const int left = left_count(node.count);
  collect({node.first, left}, run, nodes);
  collect({node.first + left, node.count - left}, run, nodes);
}

}  // namespace

int left_count(int count) {
  DDPRUN_ASSERT(count >= 2, "a leaf has no children");
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(count - 1)));
}

ShardRun shard_run(int shards, int world_size, int rank) {
  DDPRUN_ASSERT(1 <= world_size && world_size <= shards, "every rank computes at least one shard");
  DDPRUN_ASSERT(0 <= rank && rank < world_size, "a rank of this world");
  const int each = shards / world_size;
  const int longer = shards % world_size;  // this many ranks take one more
  return {rank * each + std::min(rank, longer), each + (rank < longer ? 1 : 0)};
}

std::vector<TreeNode> local_nodes(int shards, ShardRun run, SumOrder order) {
  if (order == SumOrder::chain) return {{run.first, run.count}};
  std::vector<TreeNode> nodes;
  collect({0, shards}, run, nodes);
  return nodes;
}

}  // namespace ddprun::trainer
