// The CPU's operations, one for each kind of layer.
#pragma once

#include <memory>

#include "trainer/compute/operation.hpp"

namespace ddprun::trainer {

// Of one storage type, floats, and with input gradients that are overwritten: rounded storage and
// gradients that accumulate are added around them (host_device.cpp).

// Over oneDNN (onednn_operations.cpp, linear.cpp, batch_norm.cpp, attention.cpp).
/// Without a bias if the shape has one parameter.
std::unique_ptr<Operation> make_convolution(const OperationShape& shape, const Window& window);
std::unique_ptr<Operation> make_transposed_convolution(const OperationShape& shape,
                                                       const layer::TransposedConvolution& kind);
/// Reads its weight as PyTorch has it: outputs x inputs. Of each pixel or token by itself.
std::unique_ptr<Operation> make_linear(const OperationShape& shape);
std::unique_ptr<Operation> make_average_pool(const OperationShape& shape, const Window& window);
std::unique_ptr<Operation> make_batch_norm(const OperationShape& shape, bool relu);
std::unique_ptr<Operation> make_attention_projection(const OperationShape& shape);
std::unique_ptr<Operation> make_attention(const OperationShape& shape,
                                          const layer::Attention& kind);

// In loops of our own (max_pool.cpp, adaptive_pool.cpp, upsample.cpp, dropout.cpp,
// layer_norm.cpp, activations.cpp, embedding.cpp, element_operations.cpp).
std::unique_ptr<Operation> make_max_pool(const OperationShape& shape, const Window& window);
std::unique_ptr<Operation> make_adaptive_average_pool(const OperationShape& shape);
std::unique_ptr<Operation> make_upsample(const OperationShape& shape);
std::unique_ptr<Operation> make_dropout(const OperationShape& shape, const layer::Dropout& kind);
std::unique_ptr<Operation> make_layer_norm(const OperationShape& shape);
std::unique_ptr<Operation> make_gelu(const OperationShape& shape);
std::unique_ptr<Operation> make_tanh(const OperationShape& shape);
std::unique_ptr<Operation> make_embedding(const OperationShape& shape);
std::unique_ptr<Operation> make_first_token(const OperationShape& shape);
std::unique_ptr<Operation> make_relu(const OperationShape& shape);
std::unique_ptr<Operation> make_flatten(const OperationShape& shape);
std::unique_ptr<Operation> make_add(const OperationShape& shape);
std::unique_ptr<Operation> make_concat(const OperationShape& shape);
std::unique_ptr<Operation> make_softmax_cross_entropy(const OperationShape& shape);
std::unique_ptr<Operation> make_binary_cross_entropy(const OperationShape& shape,
                                                     double positive_weight);

/// Floats in a whole batch of `shape`.
inline std::size_t batch_count(const OperationShape& shape, const ActivationShape& one) {
  return static_cast<std::size_t>(shape.batch) * one.count();
}

// The tensors of an operation on floats.
inline const float* input_of(const Tensors& tensors, std::size_t index = 0) {
  return static_cast<const float*>(tensors.inputs[index]);
}
inline float* output_of(const Tensors& tensors) { return static_cast<float*>(tensors.output); }
inline const float* output_gradient_of(const Tensors& tensors) {
  return static_cast<const float*>(tensors.output_gradient);
}
/// Null: nobody needs it.
inline float* input_gradient_of(const Tensors& tensors, std::size_t index = 0) {
  return static_cast<float*>(tensors.input_gradients[index]);
}

}  // namespace ddprun::trainer
