// What an executor keeps of its passes. For graph_executor*.cpp alone.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "trainer/compute/captured_work.hpp"
#include "trainer/compute/graph_executor.hpp"
#include "trainer/compute/memory_plan.hpp"

namespace ddprun::trainer {

/// What a shard asks the device for, part by part.
struct GraphExecutor::RepeatedPass {
  struct Piece {
    std::size_t first = 0;  ///< the last layer of this part of backward
    std::size_t end = 0;    ///< so many gradients are final after it
    RepeatedWork work;
  };
  std::vector<Piece> pieces;
};

/// A graph for one number of samples and one width of texts: its operations, their tensors' places.
struct GraphExecutor::Prepared {
  struct Node {
    const Layer* layer = nullptr;
    std::unique_ptr<Operation> operation;  // null: the samples
    bool has_backward = false;
    // What Tensors points to.
    std::vector<const void*> inputs, parameters;
    std::vector<void*> input_gradients;
    std::vector<float*> parameter_gradients;
    Tensors tensors;
  };
  Prepared(int samples, Graph at_width) : batch(samples), graph(std::move(at_width)) {}
  [[nodiscard]] const LayerPlaces& logits_places() const {
    return plan.layers.at(static_cast<std::size_t>(graph.layers().back().inputs.front()));
  }
  int batch;
  Graph graph;
  std::vector<std::vector<GradientUse>> uses;
  std::vector<Node> nodes;
  MemoryPlan plan;
};

}  // namespace ddprun::trainer
