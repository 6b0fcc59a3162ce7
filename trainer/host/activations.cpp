// GELU and tanh in our own loops.
#include <cstddef>

#include "trainer/compute/layer_ops.hpp"
#include "trainer/host/operations.hpp"
#include "trainer/host/vector_clones.hpp"

namespace ddprun::trainer {
namespace {

template <class T>
DDPRUN_TEMPLATE_CLONES DDPRUN_VECTOR_FLATTEN void gelu_forward(const T* input, std::size_t count,
                                                               T* output) {
  for (std::size_t i = 0; i < count; ++i) Gelu{}(output[i], input[i]);
}

template <class T>
DDPRUN_TEMPLATE_CLONES DDPRUN_VECTOR_FLATTEN void gelu_backward(const T* output_gradient,
                                                                const T* input, std::size_t count,
                                                                T* input_gradient) {
  for (std::size_t i = 0; i < count; ++i)
    GeluBackward{}(input_gradient[i], output_gradient[i], input[i]);
}

template <class T>
DDPRUN_TEMPLATE_CLONES DDPRUN_VECTOR_FLATTEN void tanh_forward(const T* input, std::size_t count,
                                                               T* output) {
  for (std::size_t i = 0; i < count; ++i) Tanh{}(output[i], input[i]);
}

template <class T>
DDPRUN_TEMPLATE_CLONES DDPRUN_VECTOR_FLATTEN void tanh_backward(const T* output_gradient,
                                                                const T* output, std::size_t count,
                                                                T* input_gradient) {
  for (std::size_t i = 0; i < count; ++i)
    TanhBackward{}(input_gradient[i], output_gradient[i], output[i]);
}

template <class T>
class GeluLayer final : public Operation {
 public:
  explicit GeluLayer(std::size_t count) : count_(count) {}
  void forward(const Tensors& tensors, const Pass& /*pass*/) override {
    gelu_forward(input_of<T>(tensors), count_, output_of<T>(tensors));
  }
  void backward(const Tensors& tensors, const Pass& /*pass*/) override {
    gelu_backward(output_gradient_of<T>(tensors), input_of<T>(tensors), count_,
                  input_gradient_of<T>(tensors));
  }

 private:
  std::size_t count_;
};

template <class T>
class TanhLayer final : public Operation {
 public:
  explicit TanhLayer(std::size_t count) : count_(count) {}
  void forward(const Tensors& tensors, const Pass& /*pass*/) override {
    tanh_forward(input_of<T>(tensors), count_, output_of<T>(tensors));
  }
  void backward(const Tensors& tensors, const Pass& /*pass*/) override {
    tanh_backward(output_gradient_of<T>(tensors), static_cast<const T*>(tensors.output), count_,
                  input_gradient_of<T>(tensors));
  }

 private:
  std::size_t count_;
};

}  // namespace

std::unique_ptr<Operation> make_gelu(const OperationShape& shape) {
  return for_storage(shape.storage, [&]<class T>(T) -> std::unique_ptr<Operation> {
    return std::make_unique<GeluLayer<T>>(batch_count(shape, shape.output));
  });
}
std::unique_ptr<Operation> make_tanh(const OperationShape& shape) {
  return for_storage(shape.storage, [&]<class T>(T) -> std::unique_ptr<Operation> {
    return std::make_unique<TanhLayer<T>>(batch_count(shape, shape.output));
  });
}

}  // namespace ddprun::trainer
