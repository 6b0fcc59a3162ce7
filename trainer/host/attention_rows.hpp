// What attention does to its scores between the matrix products, row by row.
#pragma once

#include <cstddef>

#include "trainer/compute/layer_ops.hpp"

namespace ddprun::trainer {

/// Rows of `count` scores, `stride` floats apart, of which what is behind the scores up to
/// lanes_of(count) may be overwritten.
struct ScoreRows {
  float* at = nullptr;
  std::size_t rows = 0;
  std::size_t count = 0;
  std::size_t stride = 0;
};

/// Scores to probabilities. Writes each row's SoftmaxRow.
void softmax_rows(const ScoreRows& scores, SoftmaxRow* saved);
/// Scores to probabilities with SoftmaxRows that are known: the bits of softmax_rows().
void softmax_rows_again(const ScoreRows& scores, const SoftmaxRow* saved);
/// One row times the factors of its dropout.
void drop_row(std::size_t count, const float* factors, float* probabilities);
/// One row of probabilities and the slopes of what was read of them: slopes become those of the
/// scores, and probabilities are multiplied by their factors. `factors` null: no dropout. What is
/// behind the count up to lanes_of(count) is overwritten.
void softmax_row_backward(std::size_t count, const float* factors, float* probabilities,
                          float* slopes);

}  // namespace ddprun::trainer
