#include "trainer/run/loop/rank_weights.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trainer/compute/buffer.hpp"

namespace ddprun::trainer {

std::vector<int> broken_ranks(std::span<const RankWeights> all) {
  std::vector<int> broken;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank].is_broken) broken.push_back(static_cast<int>(rank));
  return broken;
}

std::string alone_text(const std::vector<int>& broken, std::size_t ranks) {
  if (broken.size() == ranks) return "";
  return fmt::format(" on rank{} {} alone", broken.size() == 1 ? "" : "s", fmt::join(broken, ", "));
}

std::string why_different(std::span<const RankWeights> all) {
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank].hash != all[0].hash)
      return fmt::format(
          "rank {} holds other weights ({}) than rank 0 ({}): faulty memory, or machines with "
          "different arithmetic",
          rank, hash_text(all[rank].hash), hash_text(all[0].hash));
  return "";
}

}  // namespace ddprun::trainer
