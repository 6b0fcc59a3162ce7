// What goes around an operation on floats: gradients that accumulate, and rounded storage.
#pragma once

#include <memory>

#include "trainer/compute/operation.hpp"

namespace ddprun::trainer {

/// Adds the gradients of inputs with the use `accumulate` to those that are there. `inner`
/// overwrites them.
std::unique_ptr<Operation> accumulating(std::unique_ptr<Operation> inner,
                                        const OperationShape& shape);

/// Rounds the output and the gradients of inputs, once each is whole, to shape.storage.
std::unique_ptr<Operation> rounded(std::unique_ptr<Operation> inner, const OperationShape& shape);

}  // namespace ddprun::trainer
