// What goes around an operation: gradients that accumulate, rounded storage, and real bf16 around
// an operation on floats.
#pragma once

#include <memory>

#include "trainer/compute/operation.hpp"

namespace ddprun::trainer {

/// Adds the gradients of inputs with the use `accumulate` to those that are there. `inner`
/// overwrites them.
std::unique_ptr<Operation> accumulating(std::unique_ptr<Operation> inner,
                                        const OperationShape& shape);

/// `inner` works on floats: it gets copies of all that is stored in bf16, the type of
/// shape.storage, and what it gives is rounded.
std::unique_ptr<Operation> converted(std::unique_ptr<Operation> inner, const LayerKind& kind,
                                     const OperationShape& shape);

/// Rounds the output and the gradients of inputs, once each is whole, to shape.storage.
std::unique_ptr<Operation> rounded(std::unique_ptr<Operation> inner, const OperationShape& shape);

}  // namespace ddprun::trainer
