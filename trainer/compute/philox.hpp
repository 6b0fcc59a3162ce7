// Philox 4x32-10: random numbers as a pure function of (key, counter). There is no generator state
// to save or to keep in step between ranks. J. Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC'11.
#pragma once

#include <cstdint>

#include "trainer/compute/host_device.hpp"

namespace ddprun::trainer {

struct PhiloxBlock {
  std::uint32_t word[4];
};

/// Four 32-bit random words for one counter of four and one key of two words.
DDPRUN_HOST_DEVICE inline PhiloxBlock philox(PhiloxBlock counter, std::uint32_t key0,
                                             std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * counter.word[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * counter.word[2];
    counter = {{static_cast<std::uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0,
                static_cast<std::uint32_t>(product1),
                static_cast<std::uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1,
                static_cast<std::uint32_t>(product0)}};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return counter;
}

/// Uniform in [0, 1): the word's upper 24 bits times 2^-24, exact in float.
DDPRUN_HOST_DEVICE inline float unit_uniform(std::uint32_t word) {
  return static_cast<float>(word >> 8) * (1.0F / 16777216.0F);
}

}  // namespace ddprun::trainer
