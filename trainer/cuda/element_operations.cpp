// Layers that one kernel a pass computes: element by element, or moving values.
#include <functional>
#include <memory>

#include "trainer/cuda/kernels/element_kernels.hpp"
#include "trainer/cuda/launch.hpp"
#include "trainer/cuda/operations.hpp"

namespace ddprun::trainer::cuda {
namespace {

template <class T>
class ReluLayer final : public Operation {
 public:
  ReluLayer(Gpu& gpu, std::size_t count) : gpu_(gpu), count_(count) {}
  void forward(const Tensors& tensors, const Pass& /*pass*/) override {
    launch_over(gpu_, count_, ReluForward<T>{input_of<T>(tensors), output_of<T>(tensors), count_});
  }
  void backward(const Tensors& tensors, const Pass& /*pass*/) override {
    launch_over(gpu_, count_,
                ReluGradient<T>{output_gradient_of<T>(tensors), output_of<T>(tensors),
                                input_gradient_of<T>(tensors), count_});
  }

 private:
  Gpu& gpu_;
  std::size_t count_;
};

/// `kReadsOutput`: the slope is computed from the output, else from the input.
template <class T, class Forward, class Backward, bool kReadsOutput>
class ActivationLayer final : public Operation {
 public:
  ActivationLayer(Gpu& gpu, std::size_t count) : gpu_(gpu), count_(count) {}
  void forward(const Tensors& tensors, const Pass& /*pass*/) override {
    launch_over(gpu_, count_,
                Activate<T, Forward>{input_of<T>(tensors), output_of<T>(tensors), count_});
  }
  void backward(const Tensors& tensors, const Pass& /*pass*/) override {
    const T* const kept = kReadsOutput ? output_of<T>(tensors) : input_of<T>(tensors);
    launch_over(gpu_, count_,
                ActivationGradient<T, Backward>{output_gradient_of<T>(tensors), kept,
                                                input_gradient_of<T>(tensors), count_});
  }

 private:
  Gpu& gpu_;
  std::size_t count_;
};

/// The values of each sample's first token.
template <class T>
class FirstTokenLayer final : public Operation {
 public:
  FirstTokenLayer(Gpu& gpu, const OperationShape& shape)
      : gpu_(gpu),
        sample_(shape.inputs[0].shape.count()),
        channels_(static_cast<std::size_t>(shape.output.channels)),
        count_(batch_count(shape, shape.output)),
        inputs_(batch_count(shape, shape.inputs[0].shape)) {}
  void forward(const Tensors& tensors, const Pass& /*pass*/) override {
    launch_over(gpu_, count_,
                CopyChannels<T>{input_of<T>(tensors), output_of<T>(tensors), sample_, 0, channels_,
                                0, channels_, count_});
  }
  void backward(const Tensors& tensors, const Pass& /*pass*/) override {
    gpu_.clear(Stream::compute, tensors.input_gradients[0], inputs_ * sizeof(T));
    launch_over(gpu_, count_,
                CopyChannels<T>{output_gradient_of<T>(tensors), input_gradient_of<T>(tensors),
                                channels_, 0, sample_, 0, channels_, count_});
  }

 private:
  Gpu& gpu_;
  std::size_t sample_;  // values of one sample of the input
  std::size_t channels_, count_, inputs_;
};

/// Each image's pixels x channels become channels x pixels, as PyTorch's flatten numbers them.
template <class T>
class FlattenLayer final : public Operation {
 public:
  FlattenLayer(Gpu& gpu, const OperationShape& shape)
      : gpu_(gpu),
        channels_(static_cast<std::size_t>(shape.inputs[0].shape.channels)),
        pixels_(shape.inputs[0].shape.count() / channels_),
        count_(batch_count(shape, shape.output)) {}
  void forward(const Tensors& tensors, const Pass& /*pass*/) override {
    launch_over(gpu_, count_,
                TransposeImages<T>{input_of<T>(tensors), output_of<T>(tensors), pixels_, channels_,
                                   count_});
  }
  void backward(const Tensors& tensors, const Pass& /*pass*/) override {
    launch_over(gpu_, count_,
                TransposeImages<T>{output_gradient_of<T>(tensors), input_gradient_of<T>(tensors),
                                   channels_, pixels_, count_});
  }

 private:
  Gpu& gpu_;
  std::size_t channels_, pixels_, count_;
};

template <class T>
class AddLayer final : public Operation {
 public:
  AddLayer(Gpu& gpu, std::size_t count) : gpu_(gpu), count_(count) {}
  void forward(const Tensors& tensors, const Pass& /*pass*/) override {
    launch_over(gpu_, count_,
                AddValues<T>{input_of<T>(tensors, 0), input_of<T>(tensors, 1),
                             output_of<T>(tensors), count_});
  }
  void backward(const Tensors& tensors, const Pass& /*pass*/) override {
    for (void* const gradient : tensors.input_gradients)
      if (gradient != nullptr)
        gpu_.copy(Stream::compute, tensors.output_gradient, gradient, count_ * sizeof(T));
  }

 private:
  Gpu& gpu_;
  std::size_t count_;
};

template <class T>
class ConcatLayer final : public Operation {
 public:
  ConcatLayer(Gpu& gpu, const OperationShape& shape)
      : gpu_(gpu),
        all_(static_cast<std::size_t>(shape.output.channels)),
        first_(static_cast<std::size_t>(shape.inputs[0].shape.channels)),
        pixels_(batch_count(shape, shape.output) / all_) {}
  void forward(const Tensors& tensors, const Pass& /*pass*/) override {
    for (std::size_t k = 0; k < 2; ++k) {
      const std::size_t count = pixels_ * channels(k);
      launch_over(gpu_, count,
                  CopyChannels<T>{input_of<T>(tensors, k), output_of<T>(tensors), channels(k), 0,
                                  all_, begin(k), channels(k), count});
    }
  }
  void backward(const Tensors& tensors, const Pass& /*pass*/) override {
    for (std::size_t k = 0; k < 2; ++k) {
      if (tensors.input_gradients[k] == nullptr) continue;
      const std::size_t count = pixels_ * channels(k);
      launch_over(gpu_, count,
                  CopyChannels<T>{output_gradient_of<T>(tensors), input_gradient_of<T>(tensors, k),
                                  all_, begin(k), channels(k), 0, channels(k), count});
    }
  }

 private:
  [[nodiscard]] std::size_t channels(std::size_t input) const {
    return input == 0 ? first_ : all_ - first_;
  }
  [[nodiscard]] std::size_t begin(std::size_t input) const { return input == 0 ? 0 : first_; }

  Gpu& gpu_;
  std::size_t all_, first_;  // channels
  std::size_t pixels_;       // of all samples
};

template <class T>
using GeluLayer = ActivationLayer<T, Gelu, GeluBackward, false>;
template <class T>
using TanhLayer = ActivationLayer<T, Tanh, TanhBackward, true>;

}  // namespace

std::unique_ptr<Operation> make_relu(Gpu& gpu, const OperationShape& shape) {
  return make_typed<ReluLayer>(shape.storage, std::ref(gpu), batch_count(shape, shape.output));
}
std::unique_ptr<Operation> make_gelu(Gpu& gpu, const OperationShape& shape) {
  return make_typed<GeluLayer>(shape.storage, std::ref(gpu), batch_count(shape, shape.output));
}
std::unique_ptr<Operation> make_tanh(Gpu& gpu, const OperationShape& shape) {
  return make_typed<TanhLayer>(shape.storage, std::ref(gpu), batch_count(shape, shape.output));
}
std::unique_ptr<Operation> make_flatten(Gpu& gpu, const OperationShape& shape) {
  return make_typed<FlattenLayer>(shape.storage, std::ref(gpu), shape);
}
std::unique_ptr<Operation> make_add(Gpu& gpu, const OperationShape& shape) {
  return make_typed<AddLayer>(shape.storage, std::ref(gpu), batch_count(shape, shape.output));
}
std::unique_ptr<Operation> make_first_token(Gpu& gpu, const OperationShape& shape) {
  return make_typed<FirstTokenLayer>(shape.storage, std::ref(gpu), shape);
}
std::unique_ptr<Operation> make_concat(Gpu& gpu, const OperationShape& shape) {
  return make_typed<ConcatLayer>(shape.storage, std::ref(gpu), shape);
}
}  // namespace ddprun::trainer::cuda
