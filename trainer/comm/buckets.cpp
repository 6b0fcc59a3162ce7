#include "trainer/comm/buckets.hpp"

#include <algorithm>

#include "base/rounded_up.hpp"

namespace ddprun::trainer {
namespace {

constexpr std::size_t kAlignFloats = 64 / sizeof(float);

/// Bytes as floats, a whole number of cache lines, at least one.
std::size_t aligned_floats(std::size_t bytes) {
  const std::size_t floats = bytes / sizeof(float) / kAlignFloats * kAlignFloats;
  return std::max(floats, kAlignFloats);
}

}  // namespace

std::vector<Range> bucket_table(std::size_t arena_floats, BucketSizes sizes) {
  constexpr std::size_t kMiddleMax = kStartedMax - 2;  // beside the first and the last
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

}  // namespace ddprun::trainer
