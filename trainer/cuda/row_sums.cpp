#include "trainer/cuda/row_sums.hpp"

#include <algorithm>

#include "trainer/cuda/kernels/sum_kernels.hpp"
#include "trainer/cuda/launch.hpp"

namespace ddprun::trainer::cuda {
namespace {

/// A piece has so many rows at least, so that the second sum stays small beside the first one.
constexpr std::size_t kPieceRows = 512;
constexpr std::size_t kPiecesMax = 128;

}  // namespace

RowSums::RowSums(Gpu& gpu, std::size_t rows, std::size_t columns)
    : gpu_(gpu),
      rows_(rows),
      columns_(columns),
      pieces_(std::clamp<std::size_t>(rows / kPieceRows, 1, kPiecesMax)) {}

std::size_t RowSums::workspace_bytes() const { return pieces_ * columns_ * sizeof(float); }

template <class T>
void RowSums::run(const T* values, float* to, void* workspace) const {
  auto* const sums = static_cast<float*>(workspace);
  const std::size_t groups = (columns_ + kSumColumns - 1) / kSumColumns;
  launch(gpu_, static_cast<unsigned>(pieces_ * groups),
         ColumnSums<T>{values, sums, rows_, columns_, pieces_});
  launch_over(gpu_, columns_, SumPieces{sums, to, pieces_, columns_, false});
}
template void RowSums::run(const float*, float*, void*) const;
template void RowSums::run(const Half*, float*, void*) const;
template void RowSums::run(const BFloat16*, float*, void*) const;

}  // namespace ddprun::trainer::cuda
