// Sums over rows, in an order that the shape alone decides.
#pragma once

#include <cstddef>

#include "trainer/compute/numeric.hpp"
#include "trainer/cuda/kernel.hpp"

namespace ddprun::trainer::cuda {

/// Columns that a block sums side by side; neighbours are read together.
inline constexpr std::size_t kSumColumns = 32;
inline constexpr std::size_t kSumLanes = kBlockThreads / kSumColumns;

/// values: rows x columns. The rows are cut into `pieces`; sums: pieces x columns. A block sums
/// kSumColumns columns of one piece: pieces x ceil(columns / kSumColumns) blocks.
template <class T>
struct ColumnSums {
  static constexpr int kPhases = 5;
  struct Shared {
    float sums[kBlockThreads];
  };
  const T* values;
  float* sums;
  std::size_t rows, columns;
  std::size_t pieces;

  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at, int phase, Shared& shared) const {
    const std::size_t groups = (columns + kSumColumns - 1) / kSumColumns;
    const std::size_t piece = at.block / groups;
    const std::size_t column = at.block % groups * kSumColumns + at.thread % kSumColumns;
    const std::size_t lane = at.thread / kSumColumns;
    if (column >= columns) return;
    if (phase == 0) {
      const std::size_t height = (rows + pieces - 1) / pieces;
      const std::size_t begin = piece * height;
      const std::size_t end = begin + height < rows ? begin + height : rows;
      float sum = 0;
      for (std::size_t row = begin + lane; row < end; row += kSumLanes)
        sum += load(values[row * columns + column]);
      shared.sums[at.thread] = sum;
    } else if (phase < kPhases - 1) {
      const std::size_t half = kSumLanes >> phase;
      if (lane < half) shared.sums[at.thread] += shared.sums[at.thread + half * kSumColumns];
    } else if (lane == 0) {
      sums[piece * columns + column] = shared.sums[at.thread];
    }
  }
};

/// to[c] (+)= the sum of the pieces, in their order.
struct SumPieces {
  const float* pieces_sums;  ///< pieces x columns
  float* to;
  std::size_t pieces, columns;
  bool accumulate;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    for (std::size_t c = at.element(); c < columns; c += at.stride()) {
      float sum = 0;
      for (std::size_t k = 0; k < pieces; ++k) sum += pieces_sums[k * columns + c];
      to[c] = accumulate ? to[c] + sum : sum;
    }
  }
};

using SumKernels = KernelList<ColumnSums<float>, ColumnSums<Half>, ColumnSums<BFloat16>, SumPieces>;

}  // namespace ddprun::trainer::cuda
