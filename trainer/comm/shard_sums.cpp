#include "trainer/comm/shard_sums.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace ddprun::trainer {

/// One node of a local tree. Its sum is made in the arena of its first shard.
struct TreeAccumulator::Node {
  TreeNode shards;
  int parent = -1;
  int left = -1;
  int right = -1;
  float* arena = nullptr;  // null until its first shard has begun
  int scratch = -1;        // index of the scratch arena, where the arena is one
  std::size_t final = 0;   // floats of the sum that are final
  bool busy = false;       // somebody adds up a range of it now
};

TreeAccumulator::TreeAccumulator(int shards, ShardRun run,
                                 std::vector<std::span<float>> node_arenas, Device& device)
    : device_(device),
      run_(run),
      arenas_(std::move(node_arenas)),
      leaves_(static_cast<std::size_t>(run.count), -1) {
  const std::vector<TreeNode> locals = local_nodes(shards, run);
  DDPRUN_ASSERT(locals.size() == arenas_.size(), "one arena for each local node");
  size_ = arenas_.front().size();
  for (const TreeNode& local : locals) roots_.push_back(make_subtree(local, -1));
}

TreeAccumulator::~TreeAccumulator() = default;

int TreeAccumulator::make_subtree(TreeNode shards, int parent) {
  const int index = static_cast<int>(nodes_.size());
  nodes_.push_back({.shards = shards, .parent = parent});
  if (shards.count == 1) {
    leaves_[static_cast<std::size_t>(shards.first - run_.first)] = index;
    return index;
  }
  const int left_shards = left_count(shards.count);
  const int left = make_subtree({shards.first, left_shards}, index);
  const int right = make_subtree({shards.first + left_shards, shards.count - left_shards}, index);
  nodes_[static_cast<std::size_t>(index)].left = left;
  nodes_[static_cast<std::size_t>(index)].right = right;
  return index;
}

int TreeAccumulator::leaf_of(int shard) const {
  DDPRUN_ASSERT(run_.first <= shard && shard < run_.first + run_.count, "a shard of this rank");
  return leaves_[static_cast<std::size_t>(shard - run_.first)];
}

void TreeAccumulator::reset() {
  const std::lock_guard lock(mutex_);
  for (Node& node : nodes_) {
    DDPRUN_ASSERT(!node.busy, "no shard is under way");
    node.arena = nullptr;
    node.scratch = -1;
    node.final = 0;
  }
  for (Scratch& scratch : scratch_) scratch.used = false;
}

GradientArena TreeAccumulator::begin(int shard) {
  const std::lock_guard lock(mutex_);
  const int leaf = leaf_of(shard);
  DDPRUN_ASSERT(nodes_[static_cast<std::size_t>(leaf)].arena == nullptr,
                "a shard begins once for each step");

  float* arena = nullptr;
  int scratch = -1;
  const auto root = std::find_if(roots_.begin(), roots_.end(), [&](int index) {
    return nodes_[static_cast<std::size_t>(index)].shards.first == shard;
  });
  if (root != roots_.end()) {
    arena = arenas_[static_cast<std::size_t>(root - roots_.begin())].data();
  } else {
    const auto free = std::find_if(scratch_.begin(), scratch_.end(),
                                   [](const Scratch& one) { return !one.used; });
    scratch = static_cast<int>(free - scratch_.begin());
    if (free == scratch_.end()) scratch_.push_back({device_.allocate(size_ * sizeof(float))});
    Scratch& taken = scratch_[static_cast<std::size_t>(scratch)];
    taken.used = true;
    arena = taken.floats.as<float>().data();
  }
  // All nodes that begin with this shard are summed in its arena.
  for (int index = leaf; index >= 0; index = nodes_[static_cast<std::size_t>(index)].parent) {
    Node& node = nodes_[static_cast<std::size_t>(index)];
    if (node.shards.first != shard) break;
    node.arena = arena;
    node.scratch = scratch;
  }
  return {.floats = {arena, size_}};
}

std::size_t TreeAccumulator::final_up_to(int shard, std::size_t end) {
  std::unique_lock lock(mutex_);
  const int leaf = leaf_of(shard);
  Node& node = nodes_[static_cast<std::size_t>(leaf)];
  DDPRUN_ASSERT(node.arena != nullptr, "a shard begins before its gradients are final");
  DDPRUN_ASSERT(node.final <= end && end <= size_,
                "the final range only grows, up to the arena's size");
  node.final = end;
  merge_upwards(leaf, lock);
  return final_in_all();
}

void TreeAccumulator::merge_upwards(int from, std::unique_lock<std::mutex>& lock) {
  for (int index = nodes_[static_cast<std::size_t>(from)].parent; index >= 0;
       index = nodes_[static_cast<std::size_t>(index)].parent) {
    Node& node = nodes_[static_cast<std::size_t>(index)];
    const Node& left = nodes_[static_cast<std::size_t>(node.left)];
    const Node& right = nodes_[static_cast<std::size_t>(node.right)];
    // The thread that is busy here looks again when done, and then goes on upwards: nothing is
    // lost by leaving it to that one.
    if (node.busy) return;
    if (std::min(left.final, right.final) == node.final) return;
    while (std::min(left.final, right.final) > node.final) {
      const std::size_t begin = node.final;
      const std::size_t end = std::min(left.final, right.final);
      node.busy = true;
      lock.unlock();
      device_.add_into({node.arena + begin, end - begin}, right.arena + begin);
      lock.lock();
      node.busy = false;
      node.final = end;
    }
    if (node.final == size_ && right.scratch >= 0)
      scratch_[static_cast<std::size_t>(right.scratch)].used = false;
  }
}

std::size_t TreeAccumulator::final_in_all() const {
  std::size_t least = size_;
  for (const int root : roots_)
    least = std::min(least, nodes_[static_cast<std::size_t>(root)].final);
  return least;
}

std::size_t TreeAccumulator::scratch_arenas() const {
  const std::lock_guard lock(mutex_);
  return scratch_.size();
}

void ChainAccumulator::reset() {
  DDPRUN_ASSERT(begun_ == 0 || final_ == arena_.size(), "no shard is under way");
  begun_ = 0;
  final_ = 0;
}

GradientArena ChainAccumulator::begin(int shard) {
  DDPRUN_ASSERT(begun_ < run_.count && shard == run_.first + begun_,
                "the shards of a chain begin in their order, once for each step");
  DDPRUN_ASSERT(begun_ == 0 || final_ == arena_.size(),
                "a shard is added when the one before it is complete");
  ++begun_;
  final_ = 0;
  return {.floats = arena_, .accumulates = begun_ > 1};
}

std::size_t ChainAccumulator::final_up_to(int shard, std::size_t end) {
  DDPRUN_ASSERT(shard == run_.first + begun_ - 1, "the shard that has begun");
  DDPRUN_ASSERT(final_ <= end && end <= arena_.size(),
                "the final range only grows, up to the arena's size");
  final_ = end;
  return begun_ == run_.count ? final_ : 0;
}

}  // namespace ddprun::trainer
