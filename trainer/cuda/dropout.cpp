// Dropout, of values and of whole channels.
#include <functional>
#include <memory>

#include "trainer/cuda/kernels/dropout_kernels.hpp"
#include "trainer/cuda/launch.hpp"
#include "trainer/cuda/operations.hpp"

namespace ddprun::trainer::cuda {
namespace {

template <class T>
class DropoutLayer final : public Operation {
 public:
  DropoutLayer(Gpu& gpu, const OperationShape& shape, const layer::Dropout& kind)
      : gpu_(gpu),
        kind_(kind),
        rate_(dropout_rate(kind.probability)),
        batch_(static_cast<std::size_t>(shape.batch)),
        count_(batch_count(shape, shape.output)),
        channels_(static_cast<std::size_t>(shape.output.channels)) {}

  void forward(const Tensors& tensors, const Pass& pass) override {
    if (pass.state != nullptr) {
      apply(pass, input_of<T>(tensors), output_of<T>(tensors));
    } else if (tensors.output != tensors.inputs[0]) {
      gpu_.copy(Stream::compute, tensors.inputs[0], tensors.output, count_ * sizeof(T));
    }
  }
  void backward(const Tensors& tensors, const Pass& pass) override {
    apply(pass, output_gradient_of<T>(tensors), input_gradient_of<T>(tensors));
  }

 private:
  void apply(const Pass& pass, const T* from, T* to) {
    const MaskPlace place = mask_place(rate_, kind_.number, pass);
    if (kind_.whole_channels) {
      launch_over(gpu_, count_,
                  DropChannels<T>{place, from, to, count_ / batch_ / channels_,
                                  static_cast<std::uint32_t>(channels_), count_});
      return;
    }
    const std::size_t rows = kind_.sample_stride == 0 ? 1 : batch_;
    const DropValues<T> drop{place, from, to, rows, count_ / rows, kind_.sample_stride};
    launch_over(gpu_, drop.threads(), drop);
  }

  Gpu& gpu_;
  layer::Dropout kind_;
  DropoutRate rate_;
  std::size_t batch_, count_, channels_;
};

}  // namespace

std::unique_ptr<Operation> make_dropout(Gpu& gpu, const OperationShape& shape,
                                        const layer::Dropout& kind) {
  return make_typed<DropoutLayer>(shape.storage, std::ref(gpu), shape, kind);
}

}  // namespace ddprun::trainer::cuda
