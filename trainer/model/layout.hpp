// Between the arena's element order and PyTorch's: what checkpoints write and read.
#pragma once

#include <span>

#include "trainer/model/parameter.hpp"

namespace ddprun::trainer {

/// Copies one parameter (or its gradient or moment) out of an arena into PyTorch's row-major order.
/// `out` has parameter.count elements.
void export_parameter(const Parameter& parameter, std::span<const float> arena,
                      std::span<float> out);

/// The other way. `values` has parameter.count elements in PyTorch's order.
void import_parameter(const Parameter& parameter, std::span<const float> values,
                      std::span<float> arena);

}  // namespace ddprun::trainer
