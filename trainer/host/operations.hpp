// The CPU's operations, one for each kind of layer.
#pragma once

#include <memory>

#include "trainer/compute/numeric.hpp"
#include "trainer/compute/operation.hpp"

namespace ddprun::trainer {

// With input gradients that are overwritten: gradients that accumulate and rounded storage are
// added around them (host_device.cpp). All of them know floats, and most know real bf16 as well;
// the others, as host_device.cpp tells, get copies that are floats.

// Over oneDNN (onednn_operations.cpp, linear.cpp, batch_norm.cpp, attention.cpp).
/// Without a bias if the shape has one parameter.
std::unique_ptr<Operation> make_convolution(const OperationShape& shape, const Window& window);
std::unique_ptr<Operation> make_transposed_convolution(const OperationShape& shape,
                                                       const layer::TransposedConvolution& kind);
/// Reads its weight as PyTorch has it: outputs x inputs. Of each pixel or token by itself.
std::unique_ptr<Operation> make_linear(const OperationShape& shape);
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

/// make(T{}), T being the type that layers of this storage keep their values in: float, or
/// BFloat16.
template <class Make>
std::unique_ptr<Operation> for_storage(Storage storage, Make make) {
  if (storage == Storage::bf16) return make(BFloat16{});
  return make(0.0F);
}

/// Values in a whole batch of `shape`.
inline std::size_t batch_count(const OperationShape& shape, const ActivationShape& one) {
  return static_cast<std::size_t>(shape.batch) * one.count();
}

// The tensors of an operation, T as in for_storage().
template <class T = float>
const T* input_of(const Tensors& tensors, std::size_t index = 0) {
  return static_cast<const T*>(tensors.inputs[index]);
}
template <class T = float>
T* output_of(const Tensors& tensors) {
  return static_cast<T*>(tensors.output);
}
template <class T = float>
const T* output_gradient_of(const Tensors& tensors) {
  return static_cast<const T*>(tensors.output_gradient);
}
/// Null: nobody needs it.
template <class T = float>
T* input_gradient_of(const Tensors& tensors, std::size_t index = 0) {
  return static_cast<T*>(tensors.input_gradients[index]);
}

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
