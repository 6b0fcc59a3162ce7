// The order in which samples are visited: that of PyTorch's DistributedSampler, with shards in the
// place of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ddprun::trainer {

/// Writes the permutation of 0 .. order.size() - 1 that torch.randperm gives for a CPU generator
/// seeded with `seed`. Exact below about 2^32 / 20 samples, where PyTorch keeps this algorithm.
void permute_as_torch(std::uint64_t seed, std::span<std::uint32_t> order);

/// One epoch's list, cut into steps. Every step consumes the next block of `shards` x batch
/// entries, and shard s takes entries s, s + shards, ... of it: what replica s of
/// DistributedSampler(drop_last=False) with DataLoader(batch_size, drop_last=False) sees. The list
/// is padded by wrapping to a multiple of `shards`; the last step may have a smaller batch.
class EpochOrder {
 public:
  /// Requires samples, shards and batch of at least 1.
  EpochOrder(std::size_t samples, int shards, int batch, std::uint64_t seed);

  /// Makes the list of `epoch` the current one. Allocates nothing.
  void select(std::uint64_t epoch);

  [[nodiscard]] std::size_t steps() const;
  /// Samples that each shard computes in `step` (below steps()).
  [[nodiscard]] int batch_of(std::size_t step) const;
  /// The sample that shard `shard` computes as its `item`-th in `step`.
  [[nodiscard]] std::uint32_t sample(std::size_t step, int shard, int item) const;

 private:
  std::vector<std::uint32_t> order_;
  std::size_t shards_;
  std::size_t batch_;
  std::size_t per_shard_;  // entries of each shard in an epoch, padding included
  std::uint64_t seed_;
};

/// What the shards first_shard .. first_shard + shards - 1 compute from `first_step` of the epoch
/// to its end, one sample after the other: by step, shard and item.
class ShardSamples {
 public:
  /// Requires first_step below order.steps(). The order outlives it.
  ShardSamples(const EpochOrder& order, int first_shard, int shards, std::size_t first_step);

  [[nodiscard]] std::size_t count() const;
  /// The sample in `place`, which is below count().
  [[nodiscard]] std::uint32_t sample(std::size_t place) const;
  /// The place of the first sample in `step`, which is from first_step on.
  [[nodiscard]] std::size_t place(std::size_t step) const {
    return (step - first_step_) * of_step_;
  }

 private:
  const EpochOrder& order_;
  int first_shard_;
  std::size_t shards_;
  std::size_t first_step_;
  std::size_t of_step_;  // all but the last step have so many
};

/// Steps of one epoch without making its list.
std::size_t steps_per_epoch(std::size_t samples, int shards, int batch);

}  // namespace ddprun::trainer
