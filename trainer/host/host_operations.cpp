// Layers without a library behind them: ReLU, flatten, add.
#include <algorithm>
#include <cstddef>

#include "trainer/host/host_loops.hpp"
#include "trainer/host/operation.hpp"

namespace ddprun::trainer {
namespace {

class ReluLayer final : public Operation {
 public:
  explicit ReluLayer(std::size_t count) : count_(count) {}
  void forward(const LayerMemory& memory) override {
    relu_forward({memory.input[0], count_}, {memory.output, count_});
  }
  void backward(const LayerMemory& memory) override {
    relu_backward({memory.output_gradient, count_}, {memory.output, count_},
                  {memory.input_gradient[0], count_});
  }

 private:
  std::size_t count_;
};

/// Turns each image's pixels x channels into channels x pixels, as PyTorch's flatten of an NCHW
/// tensor numbers them.
class FlattenLayer final : public Operation {
 public:
  explicit FlattenLayer(const OperationShape& shape)
      : batch_(static_cast<std::size_t>(shape.batch)),
        pixels_(shape.input.count() / static_cast<std::size_t>(shape.input.channels)),
        channels_(static_cast<std::size_t>(shape.input.channels)) {}
  void forward(const LayerMemory& memory) override {
    transpose(memory.input[0], memory.output, pixels_, channels_);
  }
  void backward(const LayerMemory& memory) override {
    transpose(memory.output_gradient, memory.input_gradient[0], channels_, pixels_);
  }

 private:
  void transpose(const float* from, float* to, std::size_t rows, std::size_t columns) const {
    for (std::size_t image = 0; image < batch_; ++image) {
      for (std::size_t column = 0; column < columns; ++column) {
        for (std::size_t row = 0; row < rows; ++row) *to++ = from[row * columns + column];
      }
      from += rows * columns;
    }
  }
  std::size_t batch_, pixels_, channels_;
};

class AddLayer final : public Operation {
 public:
  explicit AddLayer(std::size_t count) : count_(count) {}
  void forward(const LayerMemory& memory) override {
    add({memory.input[0], count_}, {memory.input[1], count_}, {memory.output, count_});
  }
  void backward(const LayerMemory& memory) override {
    for (float* gradient : memory.input_gradient) {
      if (gradient != nullptr) std::copy_n(memory.output_gradient, count_, gradient);
    }
  }

 private:
  std::size_t count_;
};

std::size_t elements(const OperationShape& shape) {
  return static_cast<std::size_t>(shape.batch) * shape.output.count();
}

}  // namespace

std::unique_ptr<Operation> make_relu(const OperationShape& shape) {
  return std::make_unique<ReluLayer>(elements(shape));
}
std::unique_ptr<Operation> make_flatten(const OperationShape& shape) {
  return std::make_unique<FlattenLayer>(shape);
}
std::unique_ptr<Operation> make_add(const OperationShape& shape) {
  return std::make_unique<AddLayer>(elements(shape));
}

}  // namespace ddprun::trainer
