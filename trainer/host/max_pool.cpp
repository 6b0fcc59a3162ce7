// Max-pooling in our own loops. oneDNN's loses a nan on the way, so that a diverged run would go on
// with a finite loss; here, as in PyTorch, a nan wins, and of equal values the first gets the
// gradient. It is also about twice as fast.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainer/host/operation.hpp"
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
DDPRUN_VECTOR_INLINE inline void for_each_place(const OperationShape& shape, int image,
                                                Visit visit) {
  const ActivationShape& in = shape.input;
  const ActivationShape& out = shape.output;
  const Window& window = shape.window;
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

/// Images have nothing in common, so the bits do not depend on the number of threads.
template <class Function>
void for_each_image(int images, Function function) {
#if !defined(__SANITIZE_THREAD__)  // which does not know the waits of OpenMP
#pragma omp parallel for schedule(static)
#endif
  for (int image = 0; image < images; ++image) function(image);
}

class MaxPoolLayer final : public Operation {
 public:
  explicit MaxPoolLayer(const OperationShape& shape)
      : shape_(shape),
        channels_(static_cast<std::size_t>(shape.input.channels)),
        winner_(static_cast<std::size_t>(shape.batch) * shape.output.count()) {}

  void forward(const LayerMemory& memory) override {
    for_each_image(shape_.batch,
                   [&](int image) { forward_image(image, memory.input[0], memory.output); });
  }
  void backward(const LayerMemory& memory) override {
    if (memory.input_gradient[0] == nullptr) return;
    for_each_image(shape_.batch, [&](int image) {
      backward_image(image, memory.output_gradient, memory.input_gradient[0]);
    });
  }

 private:
  DDPRUN_VECTOR_CLONES
  void forward_image(int image, const float* input, float* output) {
    for_each_place(shape_, image,
                   [&](std::size_t to, std::size_t from, std::int32_t place, bool first)
                       DDPRUN_VECTOR_INLINE {
                         take_larger(input + from * channels_, place, first, channels_,
                                     output + to * channels_, winner_.data() + to * channels_);
                       });
  }
  DDPRUN_VECTOR_CLONES
  void backward_image(int image, const float* output_gradient, float* input_gradient) {
    const std::size_t count = shape_.input.count();
    std::fill_n(input_gradient + static_cast<std::size_t>(image) * count, count, 0.0F);
    for_each_place(
        shape_, image,
        [&](std::size_t to, std::size_t from, std::int32_t place, bool) DDPRUN_VECTOR_INLINE {
          give_gradient(output_gradient + to * channels_, winner_.data() + to * channels_, place,
                        channels_, input_gradient + from * channels_);
        });
  }

  OperationShape shape_;
  std::size_t channels_;
  std::vector<std::int32_t>
      winner_;  ///< for each output, the place in its window that it came from
};

}  // namespace

std::unique_ptr<Operation> make_max_pool(const OperationShape& shape) {
  return std::make_unique<MaxPoolLayer>(shape);
}

}  // namespace ddprun::trainer
