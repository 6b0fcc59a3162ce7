// Dropout. Its mask is a pure function of (seed, step, layer, shard, element): no mask is stored,
// the backward pass computes it again, and neither ranks nor threads nor the order of the elements
// can change it.
#pragma once

#include <cstdint>

#include "trainer/compute/host_device.hpp"
#include "trainer/compute/numeric.hpp"
#include "trainer/compute/philox.hpp"

namespace ddprun::trainer {

/// The probability of dropping an element, and the factor of one that is kept.
struct DropoutRate {
  float probability;
  /// 1 / (1 - probability), or 0 where nothing is kept; computed in double, as PyTorch does.
  float scale;
};

/// `probability` in [0, 1].
DDPRUN_HOST_DEVICE inline DropoutRate dropout_rate(double probability) {
  const double kept = 1.0 - probability;
  return {static_cast<float>(probability), kept == 0.0 ? 0.0F : static_cast<float>(1.0 / kept)};
}

/// Names one mask. `layer` is the dropout's number within its model, `shard` that within the step.
struct DropoutPlace {
  std::uint64_t seed;
  std::uint64_t step;
  std::uint16_t layer;
  std::uint16_t shard;
};

/// Part of the key, so that initial values (initialize.hpp), the other random numbers of the same
/// seed, come from another key whatever their counters are.
inline constexpr std::uint32_t kDropoutKey = 0x64726f70U;  // "drop"

/// Element e of a mask is word e mod 4 of
///
///   Philox(counter = {e / 4, layer * 2^16 + shard, step low, step high},
///          key = {seed low, seed high xor kDropoutKey})
///
/// and is dropped if that word's unit_uniform is below the probability. (layer, step, shard, e / 4)
/// is written into the counter's 128 bits whole, without a hash, so no two places or blocks share a
/// counter; and Philox is a bijection for each key, so no two get the same four words. Elements are
/// counted within the shard, from 0 to 2^34 - 1.
class DropoutMask {
 public:
  DDPRUN_HOST_DEVICE DropoutMask(const DropoutRate& rate, const DropoutPlace& place)
      : rate_(rate),
        counter_{{0, (std::uint32_t{place.layer} << 16) | place.shard,
                  static_cast<std::uint32_t>(place.step),
                  static_cast<std::uint32_t>(place.step >> 32)}},
        key0_(static_cast<std::uint32_t>(place.seed)),
        key1_(static_cast<std::uint32_t>(place.seed >> 32) ^ kDropoutKey) {}

  /// The words of the elements 4 * block .. 4 * block + 3: loops compute them once for all four.
  [[nodiscard]] DDPRUN_HOST_DEVICE PhiloxBlock words(std::uint32_t block) const {
    PhiloxBlock counter = counter_;
    counter.word[0] = block;
    return philox(counter, key0_, key1_);
  }

  /// What an element with this word is multiplied by: 0 if dropped, else the scale.
  [[nodiscard]] DDPRUN_HOST_DEVICE float factor_of_word(std::uint32_t word) const {
    return unit_uniform(word) < rate_.probability ? 0.0F : rate_.scale;
  }

  [[nodiscard]] DDPRUN_HOST_DEVICE float factor(std::uint64_t element) const {
    const PhiloxBlock block = words(static_cast<std::uint32_t>(element >> 2));
    return factor_of_word(block.word[element & 3U]);
  }

  [[nodiscard]] DDPRUN_HOST_DEVICE bool keep(std::uint64_t element) const {
    return factor(element) != 0.0F;
  }

 private:
  DropoutRate rate_;
  PhiloxBlock counter_;  ///< but for the block
  std::uint32_t key0_;
  std::uint32_t key1_;
};

/// The mask's element for 2-D dropout, which drops a channel of an image as a whole. `image` counts
/// within the shard.
DDPRUN_HOST_DEVICE inline std::uint64_t channel_element(std::uint64_t image, std::uint32_t channel,
                                                        std::uint32_t channels) {
  return image * channels + channel;
}

/// Forward and backward alike: the gradient takes the mask of its value. A nan stays one, dropped
/// or not, as in PyTorch.
struct Dropout {
  template <class T>
  DDPRUN_HOST_DEVICE void operator()(T& output, const T& input, float factor) const {
    store(output, load(input) * factor);
  }
};

}  // namespace ddprun::trainer
