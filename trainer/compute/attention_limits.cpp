#include "trainer/compute/attention_limits.hpp"

#include <cstdint>
#include <string>

#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

constexpr std::uint64_t kMaskElementsMax = std::uint64_t{1} << 34;

}  // namespace

void check_attention_mask(const layer::Attention& kind, int batch) {
  const auto positions = static_cast<std::uint64_t>(kind.positions);
  const auto pairs = static_cast<std::uint64_t>(batch) * static_cast<std::uint64_t>(kind.heads);
  if (kind.dropout > 0 && pairs * positions * positions > kMaskElementsMax)
    throw DataError("a shard of " + std::to_string(batch) +
                    " texts has more attention probabilities than a dropout mask can number: "
                    "use a smaller --batch");
}

}  // namespace ddprun::trainer
