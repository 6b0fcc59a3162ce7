#include "trainer/comm/shm_layout.hpp"

#include <algorithm>

#include "base/rounded_up.hpp"
#include "trainer/comm/shard_tree.hpp"

namespace ddprun::trainer {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kLineFloats = 64 / sizeof(float);
constexpr std::size_t kChunkFloatsMin =
    (16u << 10) / sizeof(float);  // below, sharing out costs more than it saves
constexpr std::size_t kChunkFloats = (512u << 10) / sizeof(float);  // where there is enough of it

std::size_t pages(std::size_t bytes) { return rounded_up(bytes, kPage); }

}  // namespace

Chunks::Chunks(Range whole, int world_size) : range(whole) {
  const std::size_t floats = whole.end - whole.begin;
  const auto ranks = static_cast<std::size_t>(world_size);
  const std::size_t one_each = std::min(ranks, (floats + kChunkFloatsMin - 1) / kChunkFloatsMin);
  count = static_cast<int>(std::clamp(floats / kChunkFloats, one_each, ranks * kChunksPerRank));
}

Range Chunks::chunk(int index) const {
  const auto cut = [&](int at) {
    if (at == 0) return range.begin;
    if (at == count) return range.end;
    const std::size_t floats = range.end - range.begin;
    const std::size_t end =
        range.begin + floats * static_cast<std::size_t>(at) / static_cast<std::size_t>(count);
    return std::max(range.begin, end / kLineFloats * kLineFloats);
  };
  return {cut(index), cut(index + 1)};
}

SegmentLayout::SegmentLayout(int rank, int world_size, int shards, std::size_t arena_floats) {
  std::size_t at = kRankBlockBytes;
  chunk_words = at;
  if (rank == 0) {
    at +=
        pages(sizeof(Word64) * kStartedMax * static_cast<std::size_t>(world_size) * kChunksPerRank);
  }
  staging = at;
  at += 2 * kStagingHalfBytes;
  arenas = at;
  arena_stride = pages(arena_floats * sizeof(float));
  slots = static_cast<int>(local_nodes(shards, shard_run(shards, world_size, rank)).size());
  bytes = arenas + static_cast<std::size_t>(slots) * arena_stride;
}

}  // namespace ddprun::trainer
