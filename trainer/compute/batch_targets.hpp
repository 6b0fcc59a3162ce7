// The labels or masks of a batch, on their way to the loss.
#pragma once

#include <cstddef>

#include "trainer/compute/batch.hpp"
#include "trainer/compute/device.hpp"
#include "trainer/compute/operation.hpp"

namespace ddprun::trainer {

/// Bytes of the device's memory for the targets of one sample.
std::size_t target_bytes(const Graph& graph);

/// Adds those of `batch`, which has pass.count samples, to what a pass reads, and points the pass
/// to them. `room`: target_bytes() for each sample.
void add_targets(const Graph& graph, const Batch& batch, const DeviceMemory& room, Pass& pass,
                 Inputs& inputs);

}  // namespace ddprun::trainer
