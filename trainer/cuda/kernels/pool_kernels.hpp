// Pooling over windows, channels-last. Each thread makes one value, so that sums have one order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/compute/numeric.hpp"
#include "trainer/cuda/kernel.hpp"

namespace ddprun::trainer::cuda {

/// Of all images of a batch.
struct PoolShape {
  int in_height, in_width;
  int out_height, out_width;
  int channels;
  int size, stride, padding;
};

/// An element of a batch of images.
struct ImagePlace {
  std::size_t image;
  int y, x, channel;
};
DDPRUN_HOST_DEVICE inline ImagePlace image_place(std::size_t element, int height, int width,
                                                 int channels) {
  const auto channel = static_cast<int>(element % static_cast<std::size_t>(channels));
  const std::size_t pixel = element / static_cast<std::size_t>(channels);
  const auto x = static_cast<int>(pixel % static_cast<std::size_t>(width));
  const std::size_t row = pixel / static_cast<std::size_t>(width);
  return {row / static_cast<std::size_t>(height),
          static_cast<int>(row % static_cast<std::size_t>(height)), x, channel};
}
DDPRUN_HOST_DEVICE inline std::size_t image_element(std::size_t image, int y, int x, int channel,
                                                    int height, int width, int channels) {
  const std::size_t row = image * static_cast<std::size_t>(height) + static_cast<std::size_t>(y);
  const std::size_t pixel = row * static_cast<std::size_t>(width) + static_cast<std::size_t>(x);
  return pixel * static_cast<std::size_t>(channels) + static_cast<std::size_t>(channel);
}

/// A nan wins; of equal values the first one. winners: for each output the place in its window.
template <class T>
struct MaxPoolForward {
  PoolShape shape;
  const T* input;
  T* output;
  std::int32_t* winners;
  std::size_t count;  ///< outputs
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    for (std::size_t i = at.element(); i < count; i += at.stride()) {
      const ImagePlace out = image_place(i, shape.out_height, shape.out_width, shape.channels);
      float largest = 0;
      std::int32_t winner = -1;
      for (int ky = 0; ky < shape.size; ++ky) {
        const int y = out.y * shape.stride - shape.padding + ky;
        if (y < 0 || y >= shape.in_height) continue;
        for (int kx = 0; kx < shape.size; ++kx) {
          const int x = out.x * shape.stride - shape.padding + kx;
          if (x < 0 || x >= shape.in_width) continue;
          const float value = load(input[image_element(
              out.image, y, x, out.channel, shape.in_height, shape.in_width, shape.channels)]);
          if (winner < 0 || value > largest || value != value) {
            largest = value;
            winner = ky * shape.size + kx;
          }
        }
      }
      store(output[i], largest);
      winners[i] = winner;
    }
  }
};

/// One thread an input: adds the gradients of the windows that it won, from the first window on.
template <class T>
struct MaxPoolGradient {
  PoolShape shape;
  const T* output_gradient;
  const std::int32_t* winners;
  T* input_gradient;
  std::size_t count;  ///< inputs
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    for (std::size_t i = at.element(); i < count; i += at.stride()) {
      const ImagePlace in = image_place(i, shape.in_height, shape.in_width, shape.channels);
      float sum = 0;
      const int last_y = (in.y + shape.padding) / shape.stride;
      const int last_x = (in.x + shape.padding) / shape.stride;
      for (int y = first_window(in.y); y <= last_y && y < shape.out_height; ++y) {
        for (int x = first_window(in.x); x <= last_x && x < shape.out_width; ++x) {
          const int place = (in.y + shape.padding - y * shape.stride) * shape.size +
                            (in.x + shape.padding - x * shape.stride);
          const std::size_t out = image_element(in.image, y, x, in.channel, shape.out_height,
                                                shape.out_width, shape.channels);
          if (winners[out] == place) sum += load(output_gradient[out]);
        }
      }
      store(input_gradient[i], sum);
    }
  }

 private:
  /// That lies on this row or column of the input.
  DDPRUN_HOST_DEVICE int first_window(int position) const {
    const int behind = position + shape.padding - shape.size + 1;
    return behind <= 0 ? 0 : (behind + shape.stride - 1) / shape.stride;
  }
};

template <class T>
using PoolKernelsOf = KernelList<MaxPoolForward<T>, MaxPoolGradient<T>>;
using PoolKernels =
    Concatenated<PoolKernelsOf<float>, PoolKernelsOf<Half>, PoolKernelsOf<BFloat16>>::type;

}  // namespace ddprun::trainer::cuda
