// Sums over all rows of something: gradients of biases, moments of channels.
#pragma once

#include <algorithm>
#include <cstddef>

#include "trainer/compute/operation.hpp"
#include "trainer/cuda/kernels/sum_kernels.hpp"
#include "trainer/cuda/launch.hpp"

namespace ddprun::trainer::cuda {

/// Of rows x columns terms, over the rows, in an order that the shape alone decides.
class RowSums {
 public:
  RowSums(Gpu& gpu, std::size_t rows, std::size_t columns)
      : gpu_(gpu),
        rows_(rows),
        columns_(columns),
        pieces_(std::clamp<std::size_t>(rows / kPieceRows, 1, kPiecesMax)) {}

  [[nodiscard]] std::size_t workspace_bytes() const { return pieces_ * columns_ * sizeof(float); }

  /// to[column] = factor * the sum; or `adds` it to what is there.
  struct Result {
    float* to;
    float factor = 1;
    bool adds = false;
  };
  /// Of term(row, column).
  template <class Term>
  void run(const Term& term, const Result& result, void* workspace) const {
    auto* const sums = static_cast<float*>(workspace);
    const std::size_t groups = (columns_ + kSumColumns - 1) / kSumColumns;
    launch(gpu_, static_cast<unsigned>(pieces_ * groups),
           ColumnSums<Term>{term, sums, rows_, columns_, pieces_});
    launch_over(gpu_, columns_,
                SumPieces{sums, result.to, pieces_, columns_, result.factor, result.adds});
  }

 private:
  /// A piece has so many rows at least, so that the second sum stays small beside the first one.
  static constexpr std::size_t kPieceRows = 512;
  static constexpr std::size_t kPiecesMax = 128;

  Gpu& gpu_;
  std::size_t rows_, columns_, pieces_;
};

/// Where an operation gives the gradient of one of its parameters.
inline RowSums::Result parameter_gradient(const Tensors& tensors, std::size_t index) {
  return {.to = tensors.parameter_gradients[index], .adds = tensors.accumulates};
}

}  // namespace ddprun::trainer::cuda
