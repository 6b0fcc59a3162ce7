// What a graph asks of its samples. Pure.
#pragma once

#include <cstddef>

#include "trainer/compute/batch.hpp"
#include "trainer/model/graph.hpp"

namespace ddprun::trainer {

std::size_t sample_count(const Graph& graph, const Batch& batch);

/// Throws DataError if a label is not one of the model's classes, a mask has values beyond 0 and 1,
/// or a token is not in the vocabulary; tokens that are stored on the device are not looked at.
/// Spans that do not fit each other, a stored sample beyond its set, or more than `most` samples,
/// are a mistake of the caller: std::logic_error.
void check_batch(const Graph& graph, const Batch& batch, int most);

}  // namespace ddprun::trainer
