#include "trainer/nccl/gradient_sum.hpp"

#include <utility>

namespace ddprun::trainer::nccl {

GradientSum::GradientSum(cuda::Gpu& gpu, const CommOptions& options)
    : gpu_(gpu), rank_(options.rank), world_size_(options.world_size) {
  const ShardRun run = shard_run(options.shards, world_size_, rank_);
  const std::size_t nodes = local_nodes(options.shards, run, options.order).size();
  std::vector<const float*> arenas;
  for (std::size_t slot = 0; slot < nodes; ++slot) {
    arenas_.push_back(options.device->allocate(options.arena_floats * sizeof(float)));
    arenas.push_back(arenas_.back().as<float>().data());
  }
  if (options.order == SumOrder::tree) tree_.emplace(*options.device, options, arenas);
}

void GradientSum::start(Range range, const InGroup& in_group) {
  if (tree_) {
    sum_in_tree(range, in_group);
  } else {
    sum_as_floats(range, in_group);
  }
}

void GradientSum::sum_as_floats(Range range, const InGroup& in_group) {
  if (range.begin == range.end) return;
  in_group([&](GroupCalls& calls) {
    calls.all_reduce(arena(0).data() + range.begin, range.end - range.begin);
  });
}

void GradientSum::sum_in_tree(Range range, const InGroup& in_group) {
  const Slices slices(range, world_size_);
  const Range own = slices.of(rank_);
  const bool is_given = in_group(with_each_peer(
      [&](GroupCalls& calls, int peer) { tree_->exchange_parts(calls, slices, peer); }));
  if (!is_given) return;
  tree_->sum(gpu_, arena(0).data(), own);
  in_group(with_each_peer([&](GroupCalls& calls, int peer) {
    calls.send(arena(0).data() + own.begin, own, peer);
    const Range theirs = slices.of(peer);
    calls.receive(arena(0).data() + theirs.begin, theirs, peer);
  }));
}

/// Side by side.
GradientSum::Calls GradientSum::with_each_peer(
    std::function<void(GroupCalls&, int peer)> with_peer) const {
  return [this, with_peer = std::move(with_peer)](GroupCalls& calls) {
    for (int step = 1; step < world_size_; ++step) with_peer(calls, (rank_ + step) % world_size_);
  };
}

}  // namespace ddprun::trainer::nccl
