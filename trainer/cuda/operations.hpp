// A GPU's operations, one for each kind of layer.
#pragma once

#include <memory>

#include "trainer/compute/numeric.hpp"
#include "trainer/compute/operation.hpp"
#include "trainer/cuda/gpu.hpp"
#include "trainer/cuda/kernels/dropout_kernels.hpp"

namespace ddprun::trainer::cuda {

/// All memory is the GPU's; the work is put on the compute stream. The GPU outlives the operation.
std::unique_ptr<Operation> make_operation(Gpu& gpu, const Layer& layer,
                                          const OperationShape& shape);

// ---- by kind; input gradients are overwritten, accumulating() adds around them ----

using Made = std::unique_ptr<Operation>;
Made make_convolution(Gpu& gpu, const OperationShape& shape, const Window& window);
Made make_transposed_convolution(Gpu& gpu, const OperationShape& shape, const Window& window);
Made make_linear(Gpu& gpu, const OperationShape& shape);
Made make_max_pool(Gpu& gpu, const OperationShape& shape, const Window& window);
Made make_adaptive_average_pool(Gpu& gpu, const OperationShape& shape);
Made make_upsample(Gpu& gpu, const OperationShape& shape);
Made make_batch_norm(Gpu& gpu, const OperationShape& shape, bool relu);
Made make_layer_norm(Gpu& gpu, const OperationShape& shape);
Made make_dropout(Gpu& gpu, const OperationShape& shape, const layer::Dropout& kind);
Made make_relu(Gpu& gpu, const OperationShape& shape);
Made make_gelu(Gpu& gpu, const OperationShape& shape);
Made make_tanh(Gpu& gpu, const OperationShape& shape);
Made make_flatten(Gpu& gpu, const OperationShape& shape);
Made make_add(Gpu& gpu, const OperationShape& shape);
Made make_concat(Gpu& gpu, const OperationShape& shape);
Made make_embedding(Gpu& gpu, const OperationShape& shape);
Made make_attention_projection(Gpu& gpu, const OperationShape& shape);
Made make_attention(Gpu& gpu, const OperationShape& shape, const layer::Attention& kind);
Made make_first_token(Gpu& gpu, const OperationShape& shape);
Made make_softmax_cross_entropy(Gpu& gpu, const OperationShape& shape);
Made make_binary_cross_entropy(Gpu& gpu, const OperationShape& shape, double positive_weight);

/// `inner` computes the input gradients that accumulate into a workspace; then they are added.
std::unique_ptr<Operation> accumulating(Gpu& gpu, std::unique_ptr<Operation> inner,
                                        const OperationShape& shape);

/// make(T{}), T being the type in which layers keep their values: float, Half, BFloat16.
template <class Make>
auto for_storage(Storage storage, Make make) {
  if (storage == Storage::bf16) return make(BFloat16{});
  if (storage == Storage::fp16) return make(Half{});
  return make(0.0F);
}
/// One<T>(arguments...), T as above.
template <template <class> class One, class... Arguments>
std::unique_ptr<Operation> make_typed(Storage storage, const Arguments&... arguments) {
  return for_storage(storage, [&]<class T>(T) -> std::unique_ptr<Operation> {
    return std::make_unique<One<T>>(arguments...);
  });
}
inline ElementType element_type(Storage storage) {
  if (storage == Storage::bf16) return ElementType::bf16;
  return storage == Storage::fp16 ? ElementType::fp16 : ElementType::fp32;
}

/// Values in a whole batch.
inline std::size_t batch_count(const OperationShape& shape, const ActivationShape& one) {
  return static_cast<std::size_t>(shape.batch) * one.count();
}

// The tensors of an operation, T as in for_storage().
template <class T>
const T* input_of(const Tensors& tensors, std::size_t index = 0) {
  return static_cast<const T*>(tensors.inputs[index]);
}
template <class T>
T* output_of(const Tensors& tensors) {
  return static_cast<T*>(tensors.output);
}
template <class T>
const T* output_gradient_of(const Tensors& tensors) {
  return static_cast<const T*>(tensors.output_gradient);
}
/// Null: nobody needs it.
template <class T>
T* input_gradient_of(const Tensors& tensors, std::size_t index = 0) {
  return static_cast<T*>(tensors.input_gradients[index]);
}

/// `number`: among the graph's dropouts. In training only.
inline MaskPlace mask_place(const DropoutRate& rate, int number, const Pass& pass) {
  return {.rate = rate,
          .place = {.seed = pass.seed,
                    .step = 0,
                    .layer = static_cast<std::uint16_t>(number),
                    .shard = 0},
          .state = pass.state,
          .shard = pass.shard};
}

}  // namespace ddprun::trainer::cuda
