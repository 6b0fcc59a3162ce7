#include "trainer/comm/reducer.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/rounded_up.hpp"
#include "trainer/comm/shard_sums.hpp"

namespace ddprun::trainer {
namespace {

constexpr std::size_t kAlignFloats = 64 / sizeof(float);

/// Bytes as floats, a whole number of cache lines, at least one.
std::size_t aligned_floats(std::size_t bytes) {
  const std::size_t floats = bytes / sizeof(float) / kAlignFloats * kAlignFloats;
  return std::max(floats, kAlignFloats);
}

std::unique_ptr<ShardSums> make_sums(Communicator& communicator, Device& device, int shards,
                                     std::size_t arena_floats) {
  const ShardRun run = shard_run(shards, communicator.world_size(), communicator.rank());
  std::vector<std::span<float>> arenas;
  for (std::size_t slot = 0; slot < local_nodes(shards, run, communicator.order()).size(); ++slot) {
    arenas.push_back(communicator.arena(static_cast<int>(slot)));
    DDPRUN_ASSERT(arenas.back().size() == arena_floats,
                  "the communicator was made for this arena size");
  }
  if (communicator.order() == SumOrder::chain)
    return std::make_unique<ChainAccumulator>(run, arenas.front());
  return std::make_unique<TreeAccumulator>(shards, run, std::move(arenas), device);
}

void raise_to(std::atomic<std::size_t>& value, std::size_t at_least) {
  std::size_t now = value.load();
  while (now < at_least && !value.compare_exchange_weak(now, at_least)) {
  }
}

}  // namespace

std::vector<Range> bucket_table(std::size_t arena_floats, BucketSizes sizes) {
  // Beside the first and the last one, and the sum of nothing that follows notes.
  constexpr std::size_t kMiddleMax = kStartedMax - 3;
  const std::size_t least = (arena_floats / kMiddleMax / kAlignFloats + 1) * kAlignFloats;
  const std::size_t each = std::max(aligned_floats(sizes.bytes), least);
  const std::size_t first = std::min(aligned_floats(sizes.first_bytes), each);
  const std::size_t last = std::min(aligned_floats(sizes.last_bytes), each);

  std::vector<Range> table;
  std::size_t at = 0;
  const auto cut = [&](std::size_t floats) {
    table.push_back({at, std::min(at + floats, arena_floats)});
    at = table.back().end;
  };
  if (at < arena_floats) cut(first);
  while (arena_floats - at > last) {
    // The cut before the last bucket lies on a cache line as well.
    const std::size_t before_last = rounded_up(arena_floats - last, kAlignFloats);
    cut(std::min(each, std::max(before_last - at, kAlignFloats)));
  }
  if (at < arena_floats) cut(last);
  return table;
}

Reducer::Reducer(Communicator& communicator, Device& device, int shards, std::size_t arena_floats,
                 BucketSizes sizes)
    : communicator_(communicator),
      buckets_(bucket_table(arena_floats, sizes)),
      gradients_(communicator.arena(0)),
      sums_(make_sums(communicator, device, shards, arena_floats)),
      tickets_(buckets_.size()) {}

void Reducer::begin_step() {
  sums_->reset();
  final_.store(0);
  launched_.store(0);
}

GradientArena Reducer::begin_shard(int shard) { return sums_->begin(shard); }

void Reducer::final_up_to(int shard, std::size_t end) {
  raise_to(final_, sums_->final_up_to(shard, end));
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
  // The last bucket may have been started before the note of the step was left.
  const auto end = buckets_.empty() ? std::size_t{0} : buckets_.back().end;
  std::optional<Ticket> noted;
  if (communicator_.has_notes())
    noted = communicator_.start(static_cast<int>(buckets_.size()), {end, end});
  for (const auto& ticket : tickets_) {
    CommResult result = communicator_.finish(ticket, deadline);
    if (!result.ok()) return result;
  }
  if (noted) {
    CommResult result = communicator_.finish(*noted, deadline);
    if (!result.ok()) return result;
  }
  exposed_ = Clock::now() - began;
  return {};
}

}  // namespace ddprun::trainer
