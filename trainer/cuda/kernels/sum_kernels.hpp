// Sums over rows, in an order that the shape alone decides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "trainer/compute/layer_ops.hpp"
#include "trainer/compute/numeric.hpp"
#include "trainer/cuda/kernel.hpp"

namespace ddprun::trainer::cuda {

/// Columns that a block sums side by side; neighbours are read together.
inline constexpr std::size_t kSumColumns = 32;
inline constexpr std::size_t kSumLanes = kBlockThreads / kSumColumns;

/// Two sums over the same rows.
struct SumPair {
  float first, second;
  DDPRUN_HOST_DEVICE void operator+=(const SumPair& more) {
    first += more.first;
    second += more.second;
  }
};

/// The sums of a block's columns: those of each column's lanes, as a tree. Phase 0 is the caller's
/// own; in the last one lane 0 has the sum.
template <class Sum>
struct LaneSums {
  static constexpr int kPhases = 5;
  static_assert(kSumLanes >> (kPhases - 2) == 1);
  Sum places[kBlockThreads];
  DDPRUN_HOST_DEVICE void add(unsigned thread, int phase) {
    const std::size_t half = kSumLanes >> phase;
    if (thread / kSumColumns < half) places[thread] += places[thread + half * kSumColumns];
  }
};

/// Sums rows x columns terms, term.of(column)(row): a float, or a SumPair. The rows are cut into
/// `pieces`; sums: pieces x kSums x columns. A block sums kSumColumns columns of one piece: pieces
/// x ceil(columns / kSumColumns) blocks.
template <class Term>
struct ColumnSums {
  using Sum = decltype(std::declval<const Term&>().of(0)(0));
  static constexpr std::size_t kSums = sizeof(Sum) / sizeof(float);
  static constexpr int kPhases = LaneSums<Sum>::kPhases;
  struct Shared {
    LaneSums<Sum> lanes;
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
      const auto own = term.of(column);
      Sum sum{};
      for (std::size_t row = begin + lane; row < end; row += kSumLanes) sum += own(row);
      shared.lanes.places[at.thread] = sum;
    } else if (phase < kPhases - 1) {
      shared.lanes.add(at.thread, phase);
    } else if (lane == 0) {
      give(sums + piece * kSums * columns + column, shared.lanes.places[at.thread]);
    }
  }

 private:
  DDPRUN_HOST_DEVICE void give(float* to, float sum) const { *to = sum; }
  DDPRUN_HOST_DEVICE void give(float* to, const SumPair& sum) const {
    to[0] = sum.first;
    to[columns] = sum.second;
  }
};

/// to[c] = the sum of the pieces times the factor; or added to what is there. The columns of both
/// sums of a SumPair lie side by side, and `second` gets those of the other one. A block sums
/// kSumColumns columns.
struct SumPieces {
  static constexpr int kPhases = LaneSums<float>::kPhases;
  struct Shared {
    LaneSums<float> lanes;
  };
  const float* piece_sums;  ///< pieces x columns
  float* to;
  float* second;  ///< of the columns behind the first half; null: there is one sum
  std::size_t pieces, columns;
  float factor;
  bool adds;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at, int phase, Shared& shared) const {
    const std::size_t column = at.block * kSumColumns + at.thread % kSumColumns;
    const std::size_t lane = at.thread / kSumColumns;
    if (column >= columns) return;
    if (phase == 0) {
      float sum = 0;
      for (std::size_t k = lane; k < pieces; k += kSumLanes)
        sum += piece_sums[k * columns + column];
      shared.lanes.places[at.thread] = sum;
    } else if (phase < kPhases - 1) {
      shared.lanes.add(at.thread, phase);
    } else if (lane == 0) {
      float& result = place(column);
      const float sum = shared.lanes.places[at.thread] * factor;
      result = adds ? result + sum : sum;
    }
  }

 private:
  [[nodiscard]] DDPRUN_HOST_DEVICE float& place(std::size_t column) const {
    const std::size_t half = columns / 2;
    return second != nullptr && column >= half ? second[column - half] : to[column];
  }
};

// ---- terms; T: float, Half, BFloat16 ----

/// The values themselves.
template <class T>
struct ValueTerm {
  const T* values;
  std::size_t columns;
  DDPRUN_HOST_DEVICE auto of(std::size_t column) const {
    return [*this, column](std::size_t row) { return load(values[row * columns + column]); };
  }
};

/// The square of the distance from the column's mean.
template <class T>
struct SquareTerm {
  const T* values;
  const float* means;
  std::size_t columns;
  DDPRUN_HOST_DEVICE auto of(std::size_t column) const {
    return [*this, column, mean = means[column]](std::size_t row) {
      const float distance = load(values[row * columns + column]) - mean;
      return distance * distance;
    };
  }
};

/// For weight and bias of a layer norm: slope * normalised value, and the slope.
template <class T>
struct LayerNormTerm {
  const T* slopes;
  const T* input;
  const RowMoments* moments;
  std::size_t columns;
  DDPRUN_HOST_DEVICE auto of(std::size_t column) const {
    return [*this, column](std::size_t row) -> SumPair {
      const std::size_t i = row * columns + column;
      const float slope = load(slopes[i]);
      return {slope * normalized(input[i], moments[row]), slope};
    };
  }
};

/// The values of tokens that are no padding; rows: samples x width.
template <class T>
struct TokenTerm {
  const T* values;
  const std::int32_t* lengths;
  std::size_t width;
  std::size_t columns;
  DDPRUN_HOST_DEVICE auto of(std::size_t column) const {
    return [*this, column](std::size_t row) {
      const bool is_token = row % width < static_cast<std::size_t>(lengths[row / width]);
      return is_token ? load(values[row * columns + column]) : 0.0F;
    };
  }
};

template <class T>
using SumKernelsOf = KernelList<ColumnSums<ValueTerm<T>>, ColumnSums<SquareTerm<T>>,
                                ColumnSums<LayerNormTerm<T>>, ColumnSums<TokenTerm<T>>>;
using SumKernels = Concatenated<KernelList<SumPieces>, SumKernelsOf<float>, SumKernelsOf<Half>,
                                SumKernelsOf<BFloat16>>::type;

}  // namespace ddprun::trainer::cuda
