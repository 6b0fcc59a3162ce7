// Max-pooling in our own loops. oneDNN's loses a nan on the way, so that a diverged run would go on
// with a finite loss; here, as in PyTorch, a nan wins, and of equal values the first gets the
// gradient. It is also at least twice as fast.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "trainer/host/operations.hpp"
#include "trainer/host/thread_count.hpp"
#include "trainer/host/vector_clones.hpp"

namespace ddprun::trainer {
namespace {

/// One place of a window, all channels: takes what is larger, or a nan, and notes the place. The
/// first place of a window is taken as it is.
template <class T>
DDPRUN_VECTOR_INLINE inline void take_larger(const T* __restrict values, std::int32_t place,
                                             bool first, std::size_t channels,
                                             T* __restrict largest,
                                             std::int32_t* __restrict winner) {
  if (first) {
    for (std::size_t c = 0; c < channels; ++c) largest[c] = values[c];
    for (std::size_t c = 0; c < channels; ++c) winner[c] = place;
    return;
  }
  for (std::size_t c = 0; c < channels; ++c) {
    const float value = load(values[c]);
    const float before = load(largest[c]);
    const std::int32_t place_before = winner[c];
    const bool takes = value > before || value != value;
    store(largest[c], takes ? value : before);
    winner[c] = takes ? place : place_before;
  }
}

template <class T>
DDPRUN_VECTOR_INLINE inline void give_gradient(const T* slope, const std::int32_t* winner,
                                               std::int32_t place, std::size_t channels,
                                               T* gradient) {
  for (std::size_t c = 0; c < channels; ++c)
    store(gradient[c], load(gradient[c]) + (winner[c] == place ? load(slope[c]) : 0.0F));
}

/// The four places of a 2 x 2 window, all channels: the same as four calls of take_larger(), but
/// the largest value so far stays in a register.
template <class T>
DDPRUN_VECTOR_INLINE inline void take_largest_of_four(const T* __restrict top,
                                                      const T* __restrict bottom,
                                                      std::size_t channels, T* __restrict largest,
                                                      std::int32_t* __restrict winner) {
  for (std::size_t c = 0; c < channels; ++c) {
    const float first = load(top[c]);
    const float second = load(top[channels + c]);
    const bool second_takes = second > first || second != second;
    const float upper = second_takes ? second : first;
    const std::int32_t upper_place = second_takes ? 1 : 0;
    const float third = load(bottom[c]);
    const bool third_takes = third > upper || third != third;
    const float before = third_takes ? third : upper;
    const std::int32_t place_before = third_takes ? 2 : upper_place;
    const float fourth = load(bottom[channels + c]);
    const bool fourth_takes = fourth > before || fourth != fourth;
    store(largest[c], fourth_takes ? fourth : before);
    winner[c] = fourth_takes ? 3 : place_before;
  }
}

/// Overwrites the gradients of the four places: no other window has them. Adding to 0 turns a
/// gradient of -0 into +0, as give_gradient() does.
template <class T>
DDPRUN_VECTOR_INLINE inline void give_four_gradients(const T* __restrict slope,
                                                     const std::int32_t* __restrict winner,
                                                     std::size_t channels, T* __restrict top,
                                                     T* __restrict bottom) {
#pragma omp simd
  for (std::size_t c = 0; c < channels; ++c) {
    // Read before the stores: g++ 12 does not know that those leave these as they are.
    const float value = load(slope[c]);
    const std::int32_t place = winner[c];
    store(top[c], 0.0F + (place == 0 ? value : 0.0F));
    store(top[channels + c], 0.0F + (place == 1 ? value : 0.0F));
    store(bottom[c], 0.0F + (place == 2 ? value : 0.0F));
    store(bottom[channels + c], 0.0F + (place == 3 ? value : 0.0F));
  }
}

/// Calls visit(output pixel, upper left input pixel) for every window in one image, where the
/// windows are 2 x 2, side by side and without padding.
template <class Visit>
DDPRUN_VECTOR_INLINE inline void for_each_two_by_two(const ActivationShape& in,
                                                     const ActivationShape& out, int image,
                                                     Visit visit) {
  for (int y = 0; y < out.height; ++y) {
    const int output_row = (image * out.height + y) * out.width;
    const int input_row = (image * in.height + 2 * y) * in.width;
    for (int x = 0; x < out.width; ++x)
      visit(static_cast<std::size_t>(output_row + x), static_cast<std::size_t>(input_row + 2 * x));
  }
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

template <class T>
class MaxPoolLayer final : public Operation {
 public:
  MaxPoolLayer(const OperationShape& shape, const Window& window)
      : batch_(shape.batch),
        in_(shape.inputs[0].shape),
        out_(shape.output),
        window_(window),
        channels_(static_cast<std::size_t>(in_.channels)),
        row_(static_cast<std::size_t>(in_.width) * channels_),
        two_by_two_(window.size == 2 && window.stride == 2 && window.padding == 0) {}

  /// For each output, the place in its window that it came from.
  [[nodiscard]] OperationMemory memory() const override {
    return {.saved = static_cast<std::size_t>(batch_) * out_.count() * sizeof(std::int32_t)};
  }
  void forward(const Tensors& tensors, const Pass& /*pass*/) override {
    auto* const winners = static_cast<std::int32_t*>(tensors.saved);
    for_each_image(batch_, [&](int image) {
      forward_image(image, input_of<T>(tensors), output_of<T>(tensors), winners);
    });
  }
  void backward(const Tensors& tensors, const Pass& /*pass*/) override {
    const auto* const winners = static_cast<const std::int32_t*>(tensors.saved);
    for_each_image(batch_, [&](int image) {
      backward_image(image, output_gradient_of<T>(tensors), winners, input_gradient_of<T>(tensors));
    });
  }

 private:
  DDPRUN_VECTOR_CLONES
  void forward_image(int image, const T* input, T* output, std::int32_t* winners) {
    if (two_by_two_) {
      for_each_two_by_two(in_, out_, image,
                          [&](std::size_t to, std::size_t from) DDPRUN_VECTOR_INLINE {
                            const T* const top = input + from * channels_;
                            take_largest_of_four(top, top + row_, channels_,
                                                 output + to * channels_, winners + to * channels_);
                          });
      return;
    }
    for_each_place(in_, out_, window_, image,
                   [&](std::size_t to, std::size_t from, std::int32_t place, bool first)
                       DDPRUN_VECTOR_INLINE {
                         take_larger(input + from * channels_, place, first, channels_,
                                     output + to * channels_, winners + to * channels_);
                       });
  }
  DDPRUN_VECTOR_CLONES
  void backward_image(int image, const T* output_gradient, const std::int32_t* winners,
                      T* input_gradient) {
    const std::size_t count = in_.count();
    if (!two_by_two_ || in_.height % 2 != 0 || in_.width % 2 != 0)  // pixels outside all windows
      std::fill_n(input_gradient + static_cast<std::size_t>(image) * count, count, T{});
    if (two_by_two_) {
      for_each_two_by_two(
          in_, out_, image, [&](std::size_t to, std::size_t from) DDPRUN_VECTOR_INLINE {
            T* const top = input_gradient + from * channels_;
            give_four_gradients(output_gradient + to * channels_, winners + to * channels_,
                                channels_, top, top + row_);
          });
      return;
    }
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
  std::size_t row_;  // values
  bool two_by_two_;
};

}  // namespace

std::unique_ptr<Operation> make_max_pool(const OperationShape& shape, const Window& window) {
  return for_storage(shape.storage, [&]<class T>(T) -> std::unique_ptr<Operation> {
    return std::make_unique<MaxPoolLayer<T>>(shape, window);
  });
}

}  // namespace ddprun::trainer
