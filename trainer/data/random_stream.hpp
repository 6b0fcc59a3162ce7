// Random numbers of generated data.
#pragma once

#include <cstdint>

namespace ddprun::trainer {

/// A counter-based stream (splitmix64): value k of the stream of (seed, index) is a hash of the
/// three.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::uint64_t index) : state_(mix(mix(seed + kStep) ^ index)) {}

  std::uint64_t next() {
    state_ += kStep;
    return mix(state_);
  }
  /// In low .. high.
  float uniform(float low, float high) {
    return low + (high - low) * static_cast<float>(next() >> 40) * 0x1p-24F;
  }
  /// 0 to count - 1.
  int below(int count) { return static_cast<int>(next() % static_cast<std::uint64_t>(count)); }

 private:
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15ULL;
  static std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  std::uint64_t state_;
};

}  // namespace ddprun::trainer
