// The shard tree written down once more, as naively as possible: what every clever way of summing
// is compared with.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace ddprun::trainer::test {

/// Floats of very different sizes and signs, so that another order of additions gives other bits.
inline std::vector<float> rough_floats(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> floats(count);
  for (float& value : floats) {
    const auto mantissa = static_cast<float>(static_cast<std::int32_t>(random())) / 2147483648.0F;
    value = mantissa * static_cast<float>(1 << (random() % 12));
  }
  return floats;
}

/// Sums shards first .. first + count - 1: the left child has the largest power of two below
/// `count`.
inline std::vector<float> tree_sum(const std::vector<std::vector<float>>& shards, int first,
                                   int count) {
  if (count == 1) return shards[static_cast<std::size_t>(first)];
  int left = 1;
  while (left * 2 < count) left *= 2;
  std::vector<float> sum = tree_sum(shards, first, left);
  const std::vector<float> right = tree_sum(shards, first + left, count - left);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += right[i];
  return sum;
}

template <class A, class B>
bool same_bits(const A& left, const B& right) {
  if (left.size() != right.size()) return false;
  // memcmp wants real addresses even for no bytes.
  return left.size() == 0 ||
         std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) == 0;
}

}  // namespace ddprun::trainer::test
