// What the CPU executor does for one layer. Implementations hold primitives and workspace, never
// activations.
#pragma once

#include <array>
#include <memory>

#include "trainer/model/graph.hpp"

namespace ddprun::trainer {

/// Memory of one layer in one pass: channels-last activations of the whole batch, parameters in
/// arena layout.
struct LayerMemory {
  static constexpr std::size_t kInputsMax = 2;
  std::array<const float*, kInputsMax> input{};
  const float* weight = nullptr;
  const float* bias = nullptr;
  float* output = nullptr;

  // Backward only.
  const float* output_gradient = nullptr;
  std::array<float*, kInputsMax> input_gradient{};  ///< overwritten; null: nobody needs it
  float* weight_gradient = nullptr;                 ///< overwritten, arena layout
  float* bias_gradient = nullptr;
};

class Operation {
 public:
  virtual ~Operation() = default;
  virtual void forward(const LayerMemory& memory) = 0;
  /// Follows the forward of the same batch: `input`, `output`, `weight` are still as they were.
  virtual void backward(const LayerMemory& memory) = 0;
};

/// Shapes of one layer for a fixed batch size.
struct OperationShape {
  int batch = 0;
  ActivationShape input;
  ActivationShape output;
  Window window;
};

// Linked layers of oneDNN (onednn_operations.cpp).
std::unique_ptr<Operation> make_convolution(const OperationShape& shape, bool needs_input_gradient);
std::unique_ptr<Operation> make_linear(const OperationShape& shape, bool needs_input_gradient);
std::unique_ptr<Operation> make_average_pool(const OperationShape& shape);

// Layers in loops of our own (max_pool.cpp, host_operations.cpp).
std::unique_ptr<Operation> make_max_pool(const OperationShape& shape);
std::unique_ptr<Operation> make_relu(const OperationShape& shape);
std::unique_ptr<Operation> make_flatten(const OperationShape& shape);
std::unique_ptr<Operation> make_add(const OperationShape& shape);

}  // namespace ddprun::trainer
