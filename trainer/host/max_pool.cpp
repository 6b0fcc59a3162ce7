// Max-pooling in our own loops. oneDNN's loses a nan on the way, so that a diverged run would go on
// with a finite loss; here, as in PyTorch, a nan wins, and of equal values the first gets the
// gradient. It is also about twice as fast.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "trainer/host/for_each_image.hpp"
#include "trainer/host/operations.hpp"
#include "trainer/host/vector_clones.hpp"

namespace ddprun::trainer {
namespace {

/// One place of a window, all channels: takes what is larger, or a nan, and notes the place. The
/// first place of a window is taken as it is.
DDPRUN_VECTOR_INLINE inline void take_larger(const float* __restrict values, std::int32_t place,
                                             bool first, std::size_t channels,
                                             float* __restrict largest,
                                             std::int32_t* __restrict winner) {
  if (first) {
    for (std::size_t c = 0; c < channels; ++c) largest[c] = values[c];
    for (std::size_t c = 0; c < channels; ++c) winner[c] = place;
    return;
  }
  for (std::size_t c = 0; c < channels; ++c) {
    const float value = values[c];
    const float before = largest[c];
    const std::int32_t place_before = winner[c];
    const bool takes = value > before || value != value;
    largest[c] = takes ? value : before;
    winner[c] = takes ? place : place_before;
  }
}

DDPRUN_VECTOR_INLINE inline void give_gradient(const float* slope, const std::int32_t* winner,
                                               std::int32_t place, std::size_t channels,
                                               float* gradient) {
  for (std::size_t c = 0; c < channels; ++c) gradient[c] += winner[c] == place ? slope[c] : 0.0F;
}

/// Calls visit(output pixel, input pixel, place in the window, first of the window) for every place
/// in one image.
template <class Visit>
DDPRUN_VECTOR_INLINE inline void for_each_place(const ActivationShape& in,
                                                const ActivationShape& out, const Window& window,
                                                int image, Visit visit) {
  for (int y = 0; y < out.height; ++y) {
    for (int x = 0; x < out.width; ++x) {
      const int output_pixel = (image * out.height + y) * out.width + x;
      const int top = y * window.stride - window.padding;
      const int left = x * window.stride - window.padding;
      bool first = true;
      for (int ky = std::max(0, -top); ky < std::min(window.size, in.height - top); ++ky) {
        for (int kx = std::max(0, -left); kx < std::min(window.size, in.width - left); ++kx) {
          const int input_pixel = (image * in.height + top + ky) * in.width + left + kx;
          visit(static_cast<std::size_t>(output_pixel), static_cast<std::size_t>(input_pixel),
                ky * window.size + kx, first);
          first = false;
        }
      }
    }
  }
}

class MaxPoolLayer final : public Operation {
 public:
  MaxPoolLayer(const OperationShape& shape, const Window& window)
      : batch_(shape.batch),
        in_(shape.inputs[0].shape),
        out_(shape.output),
        window_(window),
        channels_(static_cast<std::size_t>(in_.channels)) {}

  /// For each output, the place in its window that it came from.
  [[nodiscard]] OperationMemory memory() const override {
    return {.saved = static_cast<std::size_t>(batch_) * out_.count() * sizeof(std::int32_t)};
  }
  void forward(const Tensors& tensors, const Pass& /*pass*/) override {
    auto* const winners = static_cast<std::int32_t*>(tensors.saved);
    for_each_image(batch_, [&](int image) {
      forward_image(image, input_of(tensors), output_of(tensors), winners);
    });
  }
  void backward(const Tensors& tensors, const Pass& /*pass*/) override {
    const auto* const winners = static_cast<const std::int32_t*>(tensors.saved);
    for_each_image(batch_, [&](int image) {
      backward_image(image, output_gradient_of(tensors), winners, input_gradient_of(tensors));
    });
  }

 private:
  DDPRUN_VECTOR_CLONES
  void forward_image(int image, const float* input, float* output, std::int32_t* winners) {
    for_each_place(in_, out_, window_, image,
                   [&](std::size_t to, std::size_t from, std::int32_t place, bool first)
                       DDPRUN_VECTOR_INLINE {
                         take_larger(input + from * channels_, place, first, channels_,
                                     output + to * channels_, winners + to * channels_);
                       });
  }
  DDPRUN_VECTOR_CLONES
  void backward_image(int image, const float* output_gradient, const std::int32_t* winners,
                      float* input_gradient) {
    const std::size_t count = in_.count();
    std::fill_n(input_gradient + static_cast<std::size_t>(image) * count, count, 0.0F);
    for_each_place(in_, out_, window_, image,
                   [&](std::size_t to, std::size_t from, std::int32_t place, bool)
                       DDPRUN_VECTOR_INLINE {
                         give_gradient(output_gradient + to * channels_, winners + to * channels_,
                                       place, channels_, input_gradient + from * channels_);
                       });
  }

  int batch_;
  ActivationShape in_, out_;
  Window window_;
  std::size_t channels_;
};

}  // namespace

std::unique_ptr<Operation> make_max_pool(const OperationShape& shape, const Window& window) {
  return std::make_unique<MaxPoolLayer>(shape, window);
}

}  // namespace ddprun::trainer
