// Sums over all rows of something: gradients of biases, moments of channels.
#pragma once

#include <algorithm>
#include <cstddef>

#include "trainer/compute/operation.hpp"
#include "trainer/cuda/kernels/sum_kernels.hpp"
#include "trainer/cuda/launch.hpp"

namespace ddprun::trainer::cuda {

/// Sums rows x columns terms over the rows, in an order that the shape alone decides.
class RowSums {
 public:
  RowSums(Gpu& gpu, std::size_t rows, std::size_t columns)
      : gpu_(gpu),
        rows_(rows),
        columns_(columns),
        pieces_(std::clamp<std::size_t>(rows / kPieceRows, 1, kPiecesMax)) {}

  /// `sums`: 2 for terms that are a SumPair.
  [[nodiscard]] std::size_t workspace_bytes(std::size_t sums = 1) const {
    return pieces_ * sums * columns_ * sizeof(float);
  }

  /// to[column] = factor * the sum; or `adds` it to what is there.
  struct Result {
    float* to;
    float* second = nullptr;  ///< of terms that are a SumPair: the other sum
    float factor = 1;
    bool adds = false;
  };
  /// Sums term(row, column).
  template <class Term>
  void run(const Term& term, const Result& result, void* workspace) const {
    auto* const sums = static_cast<float*>(workspace);
    launch(gpu_, static_cast<unsigned>(pieces_ * groups(columns_)),
           ColumnSums<Term>{term, sums, rows_, columns_, pieces_});
    const std::size_t all = ColumnSums<Term>::kSums * columns_;
    launch(gpu_, groups(all),
           SumPieces{sums, result.to, result.second, pieces_, all, result.factor, result.adds});
  }

 private:
  /// A piece has so many rows at least, so that the second sum stays small beside the first one.
  /// Layers of small images have few rows: with more of them a GPU's multiprocessors would idle.
  static constexpr std::size_t kPieceRows = 128;
  static constexpr std::size_t kPiecesMax = 512;

  static unsigned groups(std::size_t columns) {
    return static_cast<unsigned>((columns + kSumColumns - 1) / kSumColumns);
  }

  Gpu& gpu_;
  std::size_t rows_, columns_, pieces_;
};

/// Where an operation gives the gradient of one of its parameters.
inline RowSums::Result parameter_gradient(const Tensors& tensors, std::size_t index) {
  return {.to = tensors.parameter_gradients[index], .adds = tensors.accumulates};
}
/// Where an operation gives the gradients of weight and bias, its first two parameters.
inline RowSums::Result weight_and_bias_gradient(const Tensors& tensors) {
  return {.to = tensors.parameter_gradients[0],
          .second = tensors.parameter_gradients[1],
          .adds = tensors.accumulates};
}

}  // namespace ddprun::trainer::cuda
