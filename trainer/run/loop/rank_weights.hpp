// Whether the ranks hold the same weights, all of them numbers. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ddprun::trainer {

/// What a rank has found in its own memory.
struct RankWeights {
  std::uint64_t hash = 0;  ///< hash_floats() of the parameters
  bool is_broken = false;  ///< a parameter or moment is an inf or nan
};

/// The ranks with an inf or nan, rising. `all`: by rank.
std::vector<int> broken_ranks(std::span<const RankWeights> all);

/// " on rank 1 alone", " on ranks 1, 3 alone"; empty if all of `ranks` are broken.
std::string alone_text(const std::vector<int>& broken, std::size_t ranks);

/// "rank 1 holds other weights (HASH) than rank 0 (HASH): ..."; empty: all hold the same.
std::string why_different(std::span<const RankWeights> all);

}  // namespace ddprun::trainer
