// Latencies of millions of requests in a few kilobytes: 64 steps for each doubling, so that a
// quantile is within 1.6 % of the real one.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace ddprun::bench {

class Histogram {
 public:
  void add(std::uint64_t nanoseconds) {
    ++counts_[index_of(nanoseconds)];
    ++total_;
  }
  void merge(const Histogram& other) {
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    total_ += other.total_;
  }
  [[nodiscard]] std::uint64_t total() const { return total_; }
  /// Microseconds below which the fraction `q` of all lies; 0 when nothing was added.
  [[nodiscard]] double quantile_us(double q) const {
    if (total_ == 0) return 0;
    const auto wanted = static_cast<std::uint64_t>(q * static_cast<double>(total_ - 1));
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen > wanted) return static_cast<double>(value_of(i)) / 1e3;
    }
    return 0;
  }

 private:
  static constexpr int kStepBits = 6;
  static constexpr std::uint64_t kSteps = 1ULL << kStepBits;

  static std::size_t index_of(std::uint64_t value) {
    if (value < kSteps) return value;
    const int shift = static_cast<int>(std::bit_width(value)) - 1 - kStepBits;
    const std::uint64_t index =
        (static_cast<std::uint64_t>(shift) + 1) * kSteps + ((value >> shift) - kSteps);
    return std::min<std::uint64_t>(index, kCounts - 1);
  }
  static std::uint64_t value_of(std::size_t index) {
    if (index < kSteps) return index;
    return (kSteps + index % kSteps) << (index / kSteps - 1);
  }

  static constexpr std::size_t kCounts = 40 * kSteps;  // up to hours
  std::array<std::uint64_t, kCounts> counts_{};
  std::uint64_t total_ = 0;
};

}  // namespace ddprun::bench
