// Dropout in our own loops: the mask is computed where it is used, in both directions.
#include "trainer/compute/dropout_ops.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "trainer/host/dropout_factors.hpp"
#include "trainer/host/operations.hpp"
#include "trainer/host/vector_clones.hpp"

namespace ddprun::trainer {
namespace {

template <class T>
class DropoutLayer final : public Operation {
 public:
  DropoutLayer(const OperationShape& shape, const layer::Dropout& kind)
      : kind_(kind),
        rate_(dropout_rate(kind.probability)),
        batch_(static_cast<std::size_t>(shape.batch)),
        count_(batch_count(shape, shape.output)),
        channels_(static_cast<std::size_t>(shape.output.channels)) {}

  void forward(const Tensors& tensors, const Pass& pass) override {
    if (pass.state != nullptr) {
      apply(mask_of(pass), input_of<T>(tensors), output_of<T>(tensors));
    } else if (tensors.output != tensors.inputs[0]) {
      std::copy_n(input_of<T>(tensors), count_, output_of<T>(tensors));
    }
  }
  void backward(const Tensors& tensors, const Pass& pass) override {
    apply(mask_of(pass), output_gradient_of<T>(tensors), input_gradient_of<T>(tensors));
  }

 private:
  [[nodiscard]] DropoutMask mask_of(const Pass& pass) const {
    return {rate_,
            {.seed = pass.seed,
             .step = steps_done(*pass.state),
             .layer = static_cast<std::uint16_t>(kind_.number),
             .shard = static_cast<std::uint16_t>(shard_number(pass.shard))}};
  }

  void apply(const DropoutMask& mask, const T* from, T* to) const {
    if (kind_.whole_channels) {
      drop_channels(mask, from, to);
    } else {
      drop_elements(mask, from, to);
    }
  }

  void drop_elements(const DropoutMask& mask, const T* from, T* to) const {
    if (kind_.sample_stride == 0 || kind_.sample_stride == count_ / batch_) {
      drop_row(mask, 0, count_, from, to);
      return;
    }
    const std::size_t row = count_ / batch_;
    for (std::size_t sample = 0; sample < batch_; ++sample)
      drop_row(mask, sample * kind_.sample_stride, row, from + sample * row, to + sample * row);
  }

  /// Elements from `first` on, a multiple of four.
  DDPRUN_VECTOR_CLONES
  static void drop_row(const DropoutMask& mask, std::size_t first, std::size_t count, const T* from,
                       T* to) {
    std::array<float, 4 * kFactorPiece> factors;
    for (std::size_t begin = 0; begin < count; begin += factors.size()) {
      const std::size_t piece = std::min(factors.size(), count - begin);
      fill_factors(mask, first + begin, piece, factors.data());
      for (std::size_t i = 0; i < piece; ++i) Dropout{}(to[begin + i], from[begin + i], factors[i]);
    }
  }

  void drop_channels(const DropoutMask& mask, const T* from, T* to) const {
    const std::size_t pixels = count_ / batch_ / channels_;
    std::vector<float> factors(channels_);
    for (std::size_t image = 0; image < batch_; ++image) {
      for (std::size_t c = 0; c < channels_; ++c)
        factors[c] = mask.factor(channel_element(image, static_cast<std::uint32_t>(c),
                                                 static_cast<std::uint32_t>(channels_)));
      for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
        for (std::size_t c = 0; c < channels_; ++c) Dropout{}(to[c], from[c], factors[c]);
        from += channels_;
        to += channels_;
      }
    }
  }

  layer::Dropout kind_;
  DropoutRate rate_;
  std::size_t batch_, count_, channels_;
};

}  // namespace

std::unique_ptr<Operation> make_dropout(const OperationShape& shape, const layer::Dropout& kind) {
  return for_storage(shape.storage, [&]<class T>(T) -> std::unique_ptr<Operation> {
    return std::make_unique<DropoutLayer<T>>(shape, kind);
  });
}

}  // namespace ddprun::trainer
