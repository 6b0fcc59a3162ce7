// Gathers one value for each shard on every rank, so that sums over shards have the same bits for
// every world size.
#pragma once

#include <span>
#include <type_traits>
#include <vector>

#include "trainer/comm/communicator.hpp"
#include "trainer/comm/shard_tree.hpp"

namespace ddprun::trainer {

/// `mine` holds this rank's values, one for each shard of shard_run(), in order. `all` becomes the
/// values of shards 0 .. shards - 1.
template <class T>
CommResult gather_shards(Communicator& communicator, int shards, std::span<const T> mine,
                         std::vector<T>& all, Clock::time_point deadline) {
  static_assert(std::is_trivially_copyable_v<T>);
  const int world = communicator.world_size();
  const auto longest = static_cast<std::size_t>(shard_run(shards, world, 0).count);
  std::vector<T> padded(mine.begin(), mine.end());
  padded.resize(longest);
  std::vector<T> gathered(longest * static_cast<std::size_t>(world));
  CommResult result =
      communicator.all_gather(std::as_bytes(std::span<const T>(padded)),
                              std::as_writable_bytes(std::span(gathered)), deadline);
  if (!result.ok()) return result;
  all.clear();
  for (int rank = 0; rank < world; ++rank) {
    const auto begin = gathered.begin() + static_cast<std::ptrdiff_t>(longest) * rank;
    all.insert(all.end(), begin, begin + shard_run(shards, world, rank).count);
  }
  return result;
}

}  // namespace ddprun::trainer
