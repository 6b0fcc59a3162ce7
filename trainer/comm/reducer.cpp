#include "trainer/comm/reducer.hpp"

#include "base/assert.hpp"

namespace ddprun::trainer {
namespace {

std::vector<std::span<float>> local_arenas(Communicator& communicator, int shards,
                                           std::size_t arena_floats) {
  const ShardRun run = shard_run(shards, communicator.world_size(), communicator.rank());
  std::vector<std::span<float>> arenas;
  for (std::size_t slot = 0; slot < local_nodes(shards, run, communicator.order()).size(); ++slot) {
    arenas.push_back(communicator.arena(static_cast<int>(slot)));
    DDPRUN_ASSERT(arenas.back().size() == arena_floats,
                  "the communicator was made for this arena size");
  }
  return arenas;
}

void raise_to(std::atomic<std::size_t>& value, std::size_t at_least) {
  std::size_t now = value.load();
  while (now < at_least && !value.compare_exchange_weak(now, at_least)) {
  }
}

}  // namespace

Reducer::Reducer(Communicator& communicator, Device& device, int shards, std::size_t arena_floats,
                 BucketSizes sizes)
    : communicator_(communicator),
      buckets_(bucket_table(arena_floats, sizes)),
      gradients_(communicator.arena(0)),
      accumulator_(shards, shard_run(shards, communicator.world_size(), communicator.rank()),
                   local_arenas(communicator, shards, arena_floats), device, communicator.order()),
      tickets_(buckets_.size()) {}

void Reducer::begin_step() {
  accumulator_.reset();
  final_.store(0);
  launched_.store(0);
}

std::span<float> Reducer::begin_shard(int shard) { return accumulator_.begin(shard); }

void Reducer::final_up_to(int shard, std::size_t end) {
  raise_to(final_, accumulator_.final_up_to(shard, end));
  launch();
}

void Reducer::launch() {
  const auto launchable = [&] {
    const std::size_t next = launched_.load();
    return next < buckets_.size() && buckets_[next].end <= final_.load();
  };
  do {
    // A lane that finds another one here goes on with its shard: the other looks once more after it
    // has let go.
    const std::unique_lock lock(communicating_, std::try_to_lock);
    if (!lock) return;
    while (launchable()) {
      const std::size_t bucket = launched_.load();
      tickets_[bucket] = communicator_.start(static_cast<int>(bucket), buckets_[bucket]);
      launched_.store(bucket + 1);
    }
    communicator_.progress();
  } while (launchable());
}

CommResult Reducer::finish_step(Clock::time_point deadline) {
  const Clock::time_point began = Clock::now();
  launch();
  DDPRUN_ASSERT(launched_.load() == buckets_.size(),
                "all shards are final when the step is finished");
  for (const auto& ticket : tickets_) {
    CommResult result = communicator_.finish(ticket, deadline);
    if (!result.ok()) return result;
  }
  exposed_ = Clock::now() - began;
  return {};
}

}  // namespace ddprun::trainer
