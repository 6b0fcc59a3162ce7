// Sums over rows, in an order that the shape alone decides.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/compute/layer_norm_ops.hpp"
#include "trainer/compute/numeric.hpp"
#include "trainer/cuda/kernel.hpp"

namespace ddprun::trainer::cuda {

/// Columns that a block sums side by side; neighbours are read together.
inline constexpr std::size_t kSumColumns = 32;
inline constexpr std::size_t kSumLanes = kBlockThreads / kSumColumns;

/// Of rows x columns terms, term(row, column). The rows are cut into `pieces`; sums: pieces x
/// columns. A block sums kSumColumns columns of one piece: pieces x ceil(columns / kSumColumns)
/// blocks.
template <class Term>
struct ColumnSums {
  static constexpr int kPhases = 5;
  struct Shared {
    float sums[kBlockThreads];
  };
  Term term;
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
      for (std::size_t row = begin + lane; row < end; row += kSumLanes) sum += term(row, column);
      shared.sums[at.thread] = sum;
    } else if (phase < kPhases - 1) {
      const std::size_t half = kSumLanes >> phase;
      if (lane < half) shared.sums[at.thread] += shared.sums[at.thread + half * kSumColumns];
    } else if (lane == 0) {
      sums[piece * columns + column] = shared.sums[at.thread];
    }
  }
};

/// to[c] = the sum of the pieces, in their order, times the factor; or added to what is there.
struct SumPieces {
  const float* piece_sums;  ///< pieces x columns
  float* to;
  std::size_t pieces, columns;
  float factor;
  bool adds;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    for (std::size_t c = at.element(); c < columns; c += at.stride()) {
      float sum = 0;
      for (std::size_t k = 0; k < pieces; ++k) sum += piece_sums[k * columns + c];
      to[c] = adds ? to[c] + sum * factor : sum * factor;
    }
  }
};

// ---- terms; T: float, Half, BFloat16 ----

/// The values themselves.
template <class T>
struct ValueTerm {
  const T* values;
  std::size_t columns;
  DDPRUN_HOST_DEVICE float operator()(std::size_t row, std::size_t column) const {
    return load(values[row * columns + column]);
  }
};

/// The square of the distance from the column's mean.
template <class T>
struct SquareTerm {
  const T* values;
  const float* means;
  std::size_t columns;
  DDPRUN_HOST_DEVICE float operator()(std::size_t row, std::size_t column) const {
    const float distance = load(values[row * columns + column]) - means[column];
    return distance * distance;
  }
};

/// For the weight of a layer norm: slope * normalised value.
template <class T>
struct LayerNormTerm {
  const T* slopes;
  const T* input;
  const RowMoments* moments;
  std::size_t columns;
  DDPRUN_HOST_DEVICE float operator()(std::size_t row, std::size_t column) const {
    const std::size_t i = row * columns + column;
    return load(slopes[i]) * normalized(input[i], moments[row]);
  }
};

/// The values of tokens that are no padding; rows: samples x width.
template <class T>
struct TokenTerm {
  const T* values;
  const std::int32_t* lengths;
  std::size_t width;
  std::size_t columns;
  DDPRUN_HOST_DEVICE float operator()(std::size_t row, std::size_t column) const {
    const bool is_token = row % width < static_cast<std::size_t>(lengths[row / width]);
    return is_token ? load(values[row * columns + column]) : 0.0F;
  }
};

template <class T>
using SumKernelsOf = KernelList<ColumnSums<ValueTerm<T>>, ColumnSums<SquareTerm<T>>,
                                ColumnSums<LayerNormTerm<T>>, ColumnSums<TokenTerm<T>>>;
using SumKernels = Concatenated<KernelList<SumPieces>, SumKernelsOf<float>, SumKernelsOf<Half>,
                                SumKernelsOf<BFloat16>>::type;

}  // namespace ddprun::trainer::cuda
