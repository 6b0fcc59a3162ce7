// Layers without a library behind them: ReLU, flatten, add, concat, the losses.
#include <algorithm>
#include <cstddef>

#include "trainer/host/host_loops.hpp"
#include "trainer/host/operations.hpp"

namespace ddprun::trainer {
namespace {

template <class T>
class ReluLayer final : public Operation {
 public:
  explicit ReluLayer(std::size_t count) : count_(count) {}
  void forward(const Tensors& tensors, const Pass& /*pass*/) override {
    relu_forward(input_of<T>(tensors), output_of<T>(tensors), count_);
  }
  void backward(const Tensors& tensors, const Pass& /*pass*/) override {
    relu_backward(output_gradient_of<T>(tensors), output_of<T>(tensors),
                  input_gradient_of<T>(tensors), count_);
  }

 private:
  std::size_t count_;
};

/// Turns each image's pixels x channels into channels x pixels, as PyTorch's flatten of an NCHW
/// tensor numbers them.
template <class T>
class FlattenLayer final : public Operation {
 public:
  explicit FlattenLayer(const OperationShape& shape)
      : batch_(static_cast<std::size_t>(shape.batch)),
        channels_(static_cast<std::size_t>(shape.inputs[0].shape.channels)),
        pixels_(shape.inputs[0].shape.count() / channels_) {}
  void forward(const Tensors& tensors, const Pass& /*pass*/) override {
    transpose(input_of<T>(tensors), output_of<T>(tensors), pixels_, channels_);
  }
  void backward(const Tensors& tensors, const Pass& /*pass*/) override {
    transpose(output_gradient_of<T>(tensors), input_gradient_of<T>(tensors), channels_, pixels_);
  }

 private:
  void transpose(const T* from, T* to, std::size_t rows, std::size_t columns) const {
    for (std::size_t image = 0; image < batch_; ++image) {
      for (std::size_t column = 0; column < columns; ++column) {
        for (std::size_t row = 0; row < rows; ++row) *to++ = from[row * columns + column];
      }
      from += rows * columns;
    }
  }
  std::size_t batch_, channels_, pixels_;
};

template <class T>
class AddLayer final : public Operation {
 public:
  explicit AddLayer(std::size_t count) : count_(count) {}
  void forward(const Tensors& tensors, const Pass& /*pass*/) override {
    add(input_of<T>(tensors, 0), input_of<T>(tensors, 1), output_of<T>(tensors), count_);
  }
  void backward(const Tensors& tensors, const Pass& /*pass*/) override {
    for (std::size_t k = 0; k < 2; ++k) {
      T* const gradient = input_gradient_of<T>(tensors, k);
      if (gradient != nullptr) std::copy_n(output_gradient_of<T>(tensors), count_, gradient);
    }
  }

 private:
  std::size_t count_;
};

template <class T>
class ConcatLayer final : public Operation {
 public:
  explicit ConcatLayer(const OperationShape& shape)
      : pixels_(batch_count(shape, shape.output) / static_cast<std::size_t>(shape.output.channels)),
        first_(static_cast<std::size_t>(shape.inputs[0].shape.channels)),
        second_(static_cast<std::size_t>(shape.inputs[1].shape.channels)) {}
  void forward(const Tensors& tensors, const Pass& /*pass*/) override {
    const T* first = input_of<T>(tensors, 0);
    const T* second = input_of<T>(tensors, 1);
    T* to = output_of<T>(tensors);
    for (std::size_t pixel = 0; pixel < pixels_; ++pixel) {
      to = std::copy_n(first, first_, to);
      to = std::copy_n(second, second_, to);
      first += first_;
      second += second_;
    }
  }
  void backward(const Tensors& tensors, const Pass& /*pass*/) override {
    give(tensors, 0, 0, first_);
    give(tensors, 1, first_, second_);
  }

 private:
  /// The gradient of one input is that of its channels.
  void give(const Tensors& tensors, std::size_t input, std::size_t begin, std::size_t count) const {
    T* to = input_gradient_of<T>(tensors, input);
    if (to == nullptr) return;
    const T* from = output_gradient_of<T>(tensors) + begin;
    for (std::size_t pixel = 0; pixel < pixels_; ++pixel) {
      to = std::copy_n(from, count, to);
      from += first_ + second_;
    }
  }
  std::size_t pixels_;          // of all samples
  std::size_t first_, second_;  // channels
};

template <class T>
class SoftmaxCrossEntropyLayer final : public Operation {
 public:
  explicit SoftmaxCrossEntropyLayer(int classes) : classes_(classes) {}
  void forward(const Tensors& tensors, const Pass& pass) override {
    softmax_cross_entropy(input_of<T>(tensors), classes_, labels(pass), first_place(pass),
                          *pass.counters);
  }
  void backward(const Tensors& tensors, const Pass& pass) override {
    // Divided here, not after the backward: gradients then add up over the shards.
    const float factor = pass.state->scaler.scale / static_cast<float>(pass.count * pass.shards);
    softmax_cross_entropy_backward(input_of<T>(tensors), classes_, labels(pass), factor,
                                   input_gradient_of<T>(tensors));
  }

 private:
  static std::span<const std::int32_t> labels(const Pass& pass) {
    return {pass.labels, static_cast<std::size_t>(pass.count)};
  }
  int classes_;
};

template <class T>
class BinaryCrossEntropyLayer final : public Operation {
 public:
  BinaryCrossEntropyLayer(const OperationShape& shape, double positive_weight)
      : pixels_(shape.inputs[0].shape.count()),
        positive_weight_(static_cast<float>(positive_weight)) {}
  void forward(const Tensors& tensors, const Pass& pass) override {
    binary_cross_entropy(input_of<T>(tensors), pass.masks, pixels_,
                         static_cast<std::size_t>(pass.count), positive_weight_, first_place(pass),
                         *pass.counters);
  }
  void backward(const Tensors& tensors, const Pass& pass) override {
    // In double until the end: there may be more pixels than a float can count.
    const double values = static_cast<double>(pixels_) * pass.count * pass.shards;
    const auto factor = static_cast<float>(static_cast<double>(pass.state->scaler.scale) / values);
    const std::size_t count = pixels_ * static_cast<std::size_t>(pass.count);
    binary_cross_entropy_backward(input_of<T>(tensors), pass.masks, count, positive_weight_, factor,
                                  input_gradient_of<T>(tensors));
  }

 private:
  std::size_t pixels_;  // of one sample
  float positive_weight_;
};

}  // namespace

std::unique_ptr<Operation> make_relu(const OperationShape& shape) {
  return for_storage(shape.storage, [&]<class T>(T) -> std::unique_ptr<Operation> {
    return std::make_unique<ReluLayer<T>>(batch_count(shape, shape.output));
  });
}
std::unique_ptr<Operation> make_flatten(const OperationShape& shape) {
  return for_storage(shape.storage, [&]<class T>(T) -> std::unique_ptr<Operation> {
    return std::make_unique<FlattenLayer<T>>(shape);
  });
}
std::unique_ptr<Operation> make_add(const OperationShape& shape) {
  return for_storage(shape.storage, [&]<class T>(T) -> std::unique_ptr<Operation> {
    return std::make_unique<AddLayer<T>>(batch_count(shape, shape.output));
  });
}
std::unique_ptr<Operation> make_concat(const OperationShape& shape) {
  return for_storage(shape.storage, [&]<class T>(T) -> std::unique_ptr<Operation> {
    return std::make_unique<ConcatLayer<T>>(shape);
  });
}
std::unique_ptr<Operation> make_softmax_cross_entropy(const OperationShape& shape) {
  return for_storage(shape.storage, [&]<class T>(T) -> std::unique_ptr<Operation> {
    return std::make_unique<SoftmaxCrossEntropyLayer<T>>(shape.inputs[0].shape.channels);
  });
}
std::unique_ptr<Operation> make_binary_cross_entropy(const OperationShape& shape,
                                                     double positive_weight) {
  return for_storage(shape.storage, [&]<class T>(T) -> std::unique_ptr<Operation> {
    return std::make_unique<BinaryCrossEntropyLayer<T>>(shape, positive_weight);
  });
}

}  // namespace ddprun::trainer
