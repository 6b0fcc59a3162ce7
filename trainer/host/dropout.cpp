// Dropout in our own loops: the mask is computed where it is used, in both directions.
#include "trainer/compute/dropout_ops.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "trainer/host/operations.hpp"
#include "trainer/host/vector_clones.hpp"

namespace ddprun::trainer {
namespace {

constexpr std::size_t kBlock = 4;  // elements that one block of random words serves

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
      apply(mask_of(pass), input_of(tensors), output_of(tensors));
    } else if (tensors.output != tensors.inputs[0]) {
      std::copy_n(input_of(tensors), count_, output_of(tensors));
    }
  }
  void backward(const Tensors& tensors, const Pass& pass) override {
    apply(mask_of(pass), output_gradient_of(tensors), input_gradient_of(tensors));
  }

 private:
  [[nodiscard]] DropoutMask mask_of(const Pass& pass) const {
    return {rate_,
            {.seed = pass.seed,
             .step = steps_done(*pass.state),
             .layer = static_cast<std::uint16_t>(kind_.number),
             .shard = static_cast<std::uint16_t>(pass.shard)}};
  }

  void apply(const DropoutMask& mask, const float* from, float* to) const {
    if (kind_.whole_channels) {
      drop_channels(mask, from, to);
    } else {
      drop_elements(mask, from, to);
    }
  }

  DDPRUN_VECTOR_CLONES
  void drop_elements(const DropoutMask& mask, const float* from, float* to) const {
    const std::size_t blocks = count_ / kBlock;
    for (std::size_t block = 0; block < blocks; ++block) {
      const PhiloxBlock words = mask.words(static_cast<std::uint32_t>(block));
      for (std::size_t k = 0; k < kBlock; ++k) {
        const std::size_t element = kBlock * block + k;
        Dropout{}(to[element], from[element], mask.factor_of_word(words.word[k]));
      }
    }
    for (std::size_t element = kBlock * blocks; element < count_; ++element)
      Dropout{}(to[element], from[element], mask.factor(element));
  }

  void drop_channels(const DropoutMask& mask, const float* from, float* to) const {
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
  return std::make_unique<DropoutLayer>(shape, kind);
}

}  // namespace ddprun::trainer
