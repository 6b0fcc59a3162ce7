// How one rank adds up the gradients of the shards that it computes, range by range as they become
// final: in the order of the shard tree, or one after another in one arena. Several lanes may
// compute the shards of a tree side by side and finish in any order: the sums do not change.
#pragma once

#include <cstddef>
#include <mutex>
#include <span>
#include <vector>

#include "trainer/comm/shard_tree.hpp"
#include "trainer/compute/device.hpp"

namespace ddprun::trainer {

class ShardSums {
 public:
  virtual ~ShardSums() = default;

  /// Forgets all sums: the next step starts.
  virtual void reset() = 0;

  /// Where the gradients of `shard` (one of the run, once for each step) are to be written. Old
  /// values are in there, and are garbage unless the arena accumulates.
  virtual GradientArena begin(int shard) = 0;

  /// The first `end` floats of this shard are final and will not be written any more. Adds up what
  /// can be added. Returns how many floats of all sums of this rank are final.
  virtual std::size_t final_up_to(int shard, std::size_t end) = 0;
};

/// One arena per local node is given by the caller (a communicator's); further ones are made when
/// needed and kept: at most log2(largest node) with one lane; each further lane needs one more, and
/// more only if one lane falls far behind.
///
/// begin() and final_up_to() may be called by several threads, each for its own shard; reset() by
/// one, when no shard is under way.
class TreeAccumulator final : public ShardSums {
 public:
  /// `node_arenas[k]` receives the sum of local_nodes(shards, run)[k]; all have the same size and
  /// are in the memory of `device`, which outlives the accumulator.
  TreeAccumulator(int shards, ShardRun run, std::vector<std::span<float>> node_arenas,
                  Device& device);
  ~TreeAccumulator() override;
  TreeAccumulator(const TreeAccumulator&) = delete;
  TreeAccumulator& operator=(const TreeAccumulator&) = delete;

  void reset() override;
  GradientArena begin(int shard) override;
  std::size_t final_up_to(int shard, std::size_t end) override;

  /// Arenas made beyond those given.
  [[nodiscard]] std::size_t scratch_arenas() const;

 private:
  struct Node;

  int make_subtree(TreeNode shards, int parent);
  int leaf_of(int shard) const;
  void merge_upwards(int node, std::unique_lock<std::mutex>& lock);
  std::size_t final_in_all() const;

  /// An arena of our own.
  struct Scratch {
    DeviceMemory floats;
    bool used = false;
  };

  Device& device_;
  ShardRun run_;
  std::size_t size_ = 0;
  std::vector<std::span<float>> arenas_;
  mutable std::mutex mutex_;  // guards all below; sums run outside it
  std::vector<Node> nodes_;
  std::vector<int> roots_;   // index into nodes_, one for each local node
  std::vector<int> leaves_;  // index into nodes_, by shard - run_.first
  std::vector<Scratch> scratch_;
};

/// One shard at a time, in the order of the run. Used by one thread.
class ChainAccumulator final : public ShardSums {
 public:
  /// `arena` receives the sum; it is in the memory of a device that accumulates gradients.
  ChainAccumulator(ShardRun run, std::span<float> arena) : run_(run), arena_(arena) {}

  void reset() override;
  GradientArena begin(int shard) override;
  std::size_t final_up_to(int shard, std::size_t end) override;

 private:
  const ShardRun run_;
  const std::span<float> arena_;
  int begun_ = 0;          // shards
  std::size_t final_ = 0;  // floats of the one under way
};

}  // namespace ddprun::trainer
