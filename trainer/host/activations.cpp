// GELU and tanh in our own loops.
#include <cstddef>

#include "trainer/compute/activation_ops.hpp"
#include "trainer/host/operations.hpp"
#include "trainer/host/vector_clones.hpp"

namespace ddprun::trainer {
namespace {

DDPRUN_VECTOR_CLONES DDPRUN_VECTOR_FLATTEN void gelu_forward(std::span<const float> input,
                                                             float* output) {
  for (std::size_t i = 0; i < input.size(); ++i) Gelu{}(output[i], input[i]);
}

DDPRUN_VECTOR_CLONES DDPRUN_VECTOR_FLATTEN void gelu_backward(const float* output_gradient,
                                                              std::span<const float> input,
                                                              float* input_gradient) {
  for (std::size_t i = 0; i < input.size(); ++i)
    GeluBackward{}(input_gradient[i], output_gradient[i], input[i]);
}

DDPRUN_VECTOR_CLONES DDPRUN_VECTOR_FLATTEN void tanh_forward(std::span<const float> input,
                                                             float* output) {
  for (std::size_t i = 0; i < input.size(); ++i) Tanh{}(output[i], input[i]);
}

DDPRUN_VECTOR_CLONES DDPRUN_VECTOR_FLATTEN void tanh_backward(const float* output_gradient,
                                                              std::span<const float> output,
                                                              float* input_gradient) {
  for (std::size_t i = 0; i < output.size(); ++i)
    TanhBackward{}(input_gradient[i], output_gradient[i], output[i]);
}

class GeluLayer final : public Operation {
 public:
  explicit GeluLayer(std::size_t count) : count_(count) {}
  void forward(const Tensors& tensors, const Pass& /*pass*/) override {
    gelu_forward({input_of(tensors), count_}, output_of(tensors));
  }
  void backward(const Tensors& tensors, const Pass& /*pass*/) override {
    gelu_backward(output_gradient_of(tensors), {input_of(tensors), count_},
                  input_gradient_of(tensors));
  }

 private:
  std::size_t count_;
};

class TanhLayer final : public Operation {
 public:
  explicit TanhLayer(std::size_t count) : count_(count) {}
  void forward(const Tensors& tensors, const Pass& /*pass*/) override {
    tanh_forward({input_of(tensors), count_}, output_of(tensors));
  }
  void backward(const Tensors& tensors, const Pass& /*pass*/) override {
    tanh_backward(output_gradient_of(tensors), {output_of(tensors), count_},
                  input_gradient_of(tensors));
  }

 private:
  std::size_t count_;
};

}  // namespace

std::unique_ptr<Operation> make_gelu(const OperationShape& shape) {
  return std::make_unique<GeluLayer>(batch_count(shape, shape.output));
}
std::unique_ptr<Operation> make_tanh(const OperationShape& shape) {
  return std::make_unique<TanhLayer>(batch_count(shape, shape.output));
}

}  // namespace ddprun::trainer
