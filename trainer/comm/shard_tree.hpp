// The fixed balanced tree in which the gradients of V shards are summed, whatever the world size.
// Pure.
#pragma once

#include <vector>

namespace ddprun::trainer {

/// The shards first .. first + count - 1, summed in tree order: a node of `count` shards is the sum
/// of its left child (the largest power of two below `count`) and its right child (the rest). This
/// is the shape of a binary counter: `count` is a power of two and `first` a multiple of it, except
/// at the tail of a V that is not a power of two.
struct TreeNode {
  int first = 0;
  int count = 1;
  friend bool operator==(const TreeNode&, const TreeNode&) = default;
};

/// Number of shards in the left child of a node of `count` >= 2 shards.
int left_count(int count);

/// Contiguous run of shards.
struct ShardRun {
  int first = 0;
  int count = 0;
};

/// The shards that `rank` of `world_size` computes; earlier ranks take one more where V is not
/// divisible. Requires 1 <= world_size <= shards.
ShardRun shard_run(int shards, int world_size, int rank);

enum class SumOrder {
  tree,   ///< the bits do not depend on the world size
  chain,  ///< each rank adds its shards one after another in one arena: the bits do depend on it
};

/// The largest nodes of the tree over `shards` shards that lie wholly inside `run`, in order: what
/// a rank can sum alone. Their number is at most 2 * log2(shards). In a chain: the run.
std::vector<TreeNode> local_nodes(int shards, ShardRun run, SumOrder order = SumOrder::tree);

}  // namespace ddprun::trainer
