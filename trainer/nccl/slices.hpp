// How a bucket is cut into one slice for each rank. Pure.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/rounded_up.hpp"
#include "trainer/comm/communicator.hpp"

namespace ddprun::trainer::nccl {

class Slices {
 public:
  Slices(Range range, int ranks) : range_(range), step_(step_of(range.end - range.begin, ranks)) {}

  [[nodiscard]] Range of(int rank) const {
    const std::size_t begin =
        std::min(range_.end, range_.begin + static_cast<std::size_t>(rank) * step_);
    return {begin, std::min(range_.end, begin + step_)};
  }
  /// Floats of the largest slice of so many floats; slices begin on 64 bytes.
  static std::size_t step_of(std::size_t floats, int ranks) {
    const auto count = static_cast<std::size_t>(ranks);
    return rounded_up((floats + count - 1) / count, 64 / sizeof(float));
  }

 private:
  Range range_;
  std::size_t step_;
};

}  // namespace ddprun::trainer::nccl
