// Runs a graph on the CPU: static buffers, one operation per layer, forward in order, backward in
// reverse.
#pragma once

#include <memory>

#include "trainer/model/graph.hpp"
#include "trainer/model/model.hpp"

namespace ddprun::trainer {

/// `graph` must outlive the executor. In bf16 and fp16 all values that a GPU would store in that
/// type (activations, their gradients, the layers' copies of parameters) are rounded to it at layer
/// boundaries, while the arithmetic between is fp32: the same results on every machine whatever it
/// has in hardware, overflow to inf included, but no faster than fp32. Element-wise layers run on
/// the calling thread alone.
std::unique_ptr<Executor> make_cpu_executor(const Graph& graph, int batch_size, Precision precision,
                                            int threads);

}  // namespace ddprun::trainer
