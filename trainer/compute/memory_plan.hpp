// Where the values of a pass lie: memory is used again as soon as nobody reads what was there.
// Pure.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "trainer/compute/operation.hpp"
#include "trainer/model/graph.hpp"

namespace ddprun::trainer {

/// A piece of memory that is needed in the moments [first, last].
struct MemoryNeed {
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;
};

/// A place for each need, on a 64-byte boundary.
struct Placement {
  std::vector<std::size_t> offsets;  ///< in bytes
  std::size_t bytes = 0;             ///< that hold all needs
};
/// Larger needs first, each at the lowest place where none lies that is needed at the same time.
Placement place(std::span<const MemoryNeed> needs);

/// One layer's place in memory, in bytes from its start. Layers without the like have kNowhere.
struct LayerPlaces {
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);
  std::size_t output = kNowhere;
  std::size_t gradient = kNowhere;  ///< of the output; nowhere: no parameters lie before it
  std::size_t saved = kNowhere;
};
struct MemoryPlan {
  std::vector<LayerPlaces> layers;
  std::size_t workspace = 0;  ///< where it begins
  std::size_t bytes = 0;
};

/// What backward does with the gradient of each input of each layer; layers run from the last to
/// the first.
std::vector<std::vector<GradientUse>> gradient_uses(const Graph& graph);

/// For `batch` samples of `value_bytes` each. `memories`: what the operations want, by layer.
/// `trains`: a backward follows each forward.
MemoryPlan plan_memory(const Graph& graph, int batch, std::size_t value_bytes, bool trains,
                       std::span<const OperationMemory> memories);

}  // namespace ddprun::trainer
