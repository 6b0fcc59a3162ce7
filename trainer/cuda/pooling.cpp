// Pooling and enlarging: one kernel a pass.
#include <functional>
#include <memory>

#include "trainer/cuda/kernels/pool_kernels.hpp"
#include "trainer/cuda/launch.hpp"
#include "trainer/cuda/operations.hpp"

namespace ddprun::trainer::cuda {
namespace {

PoolShape pool_shape(const OperationShape& shape, const Window& window) {
  return {.in_height = shape.inputs[0].shape.height,
          .in_width = shape.inputs[0].shape.width,
          .out_height = shape.output.height,
          .out_width = shape.output.width,
          .channels = shape.output.channels,
          .size = window.size,
          .stride = window.stride,
          .padding = window.padding};
}

template <class T>
class MaxPoolLayer final : public Operation {
 public:
  MaxPoolLayer(Gpu& gpu, const OperationShape& shape, const Window& window)
      : gpu_(gpu),
        shape_(pool_shape(shape, window)),
        inputs_(batch_count(shape, shape.inputs[0].shape)),
        outputs_(batch_count(shape, shape.output)) {}
  /// For each output, the place in its window that it came from.
  [[nodiscard]] OperationMemory memory() const override {
    return {.saved = outputs_ * sizeof(std::int32_t)};
  }
  void forward(const Tensors& tensors, const Pass& /*pass*/) override {
    launch_over(gpu_, outputs_,
                MaxPoolForward<T>{shape_, input_of<T>(tensors), output_of<T>(tensors),
                                  static_cast<std::int32_t*>(tensors.saved), outputs_});
  }
  void backward(const Tensors& tensors, const Pass& /*pass*/) override {
    launch_over(gpu_, inputs_,
                MaxPoolGradient<T>{shape_, output_gradient_of<T>(tensors),
                                   static_cast<const std::int32_t*>(tensors.saved),
                                   input_gradient_of<T>(tensors), inputs_});
  }

 private:
  Gpu& gpu_;
  PoolShape shape_;
  std::size_t inputs_, outputs_;
};

/// Layers that remember nothing.
template <class T, template <class> class Forward, template <class> class Gradient>
class PixelLayer final : public Operation {
 public:
  PixelLayer(Gpu& gpu, const OperationShape& shape, const Window& window)
      : gpu_(gpu),
        shape_(pool_shape(shape, window)),
        inputs_(batch_count(shape, shape.inputs[0].shape)),
        outputs_(batch_count(shape, shape.output)) {}
  void forward(const Tensors& tensors, const Pass& /*pass*/) override {
    launch_over(gpu_, outputs_,
                Forward<T>{shape_, input_of<T>(tensors), output_of<T>(tensors), outputs_});
  }
  void backward(const Tensors& tensors, const Pass& /*pass*/) override {
    launch_over(gpu_, inputs_,
                Gradient<T>{shape_, output_gradient_of<T>(tensors), input_gradient_of<T>(tensors),
                            inputs_});
  }

 private:
  Gpu& gpu_;
  PoolShape shape_;
  std::size_t inputs_, outputs_;
};

template <class T>
using AdaptivePoolLayer = PixelLayer<T, AdaptivePoolForward, AdaptivePoolGradient>;
template <class T>
using UpsampleLayer = PixelLayer<T, UpsampleForward, UpsampleGradient>;

}  // namespace

std::unique_ptr<Operation> make_max_pool(Gpu& gpu, const OperationShape& shape,
                                         const Window& window) {
  return make_typed<MaxPoolLayer>(shape.storage, std::ref(gpu), shape, window);
}
std::unique_ptr<Operation> make_adaptive_average_pool(Gpu& gpu, const OperationShape& shape) {
  return make_typed<AdaptivePoolLayer>(shape.storage, std::ref(gpu), shape, Window{});
}
std::unique_ptr<Operation> make_upsample(Gpu& gpu, const OperationShape& shape) {
  return make_typed<UpsampleLayer>(shape.storage, std::ref(gpu), shape, Window{});
}

}  // namespace ddprun::trainer::cuda
