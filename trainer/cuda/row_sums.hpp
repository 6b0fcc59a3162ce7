// The gradient of a bias: the sum of all rows.
#pragma once

#include <cstddef>

#include "trainer/cuda/gpu.hpp"

namespace ddprun::trainer::cuda {

/// Sums rows x columns values over the rows, in an order that the shape alone decides.
class RowSums {
 public:
  RowSums(Gpu& gpu, std::size_t rows, std::size_t columns);
  [[nodiscard]] std::size_t workspace_bytes() const;
  /// T: float, Half, BFloat16. Overwrites to[columns].
  template <class T>
  void run(const T* values, float* to, void* workspace) const;

 private:
  Gpu& gpu_;
  std::size_t rows_, columns_, pieces_;
};

}  // namespace ddprun::trainer::cuda
