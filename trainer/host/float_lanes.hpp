// Sums of rows in sixteen lanes: the compiler does not reorder a sum of floats, so it would not
// vectorise the plain loop. The order is the same for every vector width.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "trainer/compute/numeric.hpp"
#include "trainer/host/vector_clones.hpp"

namespace ddprun::trainer {

inline constexpr std::size_t kFloatLanes = 16;
/// One AVX-512 register, or two or four smaller ones.
using FloatLanes = float __attribute__((vector_size(kFloatLanes * sizeof(float))));

/// `count`: at most kFloatLanes; the others become `fill`.
[[gnu::always_inline]] inline void load_lanes(FloatLanes& to, const float* from, std::size_t count,
                                              float fill = 0.0F) {
  if (count >= kFloatLanes) {
    std::memcpy(&to, from, sizeof to);
    return;
  }
  float padded[kFloatLanes];
  for (std::size_t i = 0; i < kFloatLanes; ++i) padded[i] = i < count ? from[i] : fill;
  std::memcpy(&to, padded, sizeof to);
}

/// Loads bf16 values, `fill` behind the count.
[[gnu::always_inline]] inline void load_lanes(FloatLanes& to, const BFloat16* from,
                                              std::size_t count, float fill = 0.0F) {
  using Halves = std::uint16_t __attribute__((vector_size(kFloatLanes * sizeof(std::uint16_t))));
  using Words = std::uint32_t __attribute__((vector_size(kFloatLanes * sizeof(std::uint32_t))));
  if (count >= kFloatLanes) {
    Halves halves;
    std::memcpy(&halves, from, sizeof halves);
    const Words words = __builtin_convertvector(halves, Words) << 16;
    std::memcpy(&to, &words, sizeof to);
    return;
  }
  float padded[kFloatLanes];
  for (std::size_t i = 0; i < kFloatLanes; ++i) padded[i] = i < count ? load(from[i]) : fill;
  std::memcpy(&to, padded, sizeof to);
}

/// In a fixed tree.
[[gnu::always_inline]] inline float sum_lanes(const FloatLanes& lanes) {
  float sums[kFloatLanes];
  std::memcpy(sums, &lanes, sizeof sums);
  for (std::size_t half = kFloatLanes / 2; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  return sums[0];
}

}  // namespace ddprun::trainer
