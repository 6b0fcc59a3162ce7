// Pooling over windows, and enlarging; channels-last. Each thread makes one value, so that sums
// have one order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/compute/numeric.hpp"
#include "trainer/compute/upsample_ops.hpp"
#include "trainer/cuda/kernel.hpp"

namespace ddprun::trainer::cuda {

/// From begin up to end, in one direction.
struct WindowRange {
  int begin, end;
};

/// Of all images of a batch.
struct PoolShape {
  int in_height, in_width;
  int out_height, out_width;
  int channels;
  int size, stride, padding;

  /// The windows that lie on a row or column of the input.
  [[nodiscard]] DDPRUN_HOST_DEVICE WindowRange windows_on(int position, int outputs) const {
    const int behind = position + padding - size + 1;
    const int begin = behind <= 0 ? 0 : (behind + stride - 1) / stride;
    const int end = (position + padding) / stride + 1;
    return {begin, end < outputs ? end : outputs};
  }
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
      const WindowRange rows = shape.windows_on(in.y, shape.out_height);
      const WindowRange columns = shape.windows_on(in.x, shape.out_width);
      float sum = 0;
      for (int y = rows.begin; y < rows.end; ++y) {
        for (int x = columns.begin; x < columns.end; ++x) {
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
};

/// The mean over all places of the window, padding included.
template <class T>
struct AveragePoolForward {
  PoolShape shape;
  const T* input;
  T* output;
  std::size_t count;  ///< outputs
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    const float places = static_cast<float>(shape.size * shape.size);
    for (std::size_t i = at.element(); i < count; i += at.stride()) {
      const ImagePlace out = image_place(i, shape.out_height, shape.out_width, shape.channels);
      float sum = 0;
      for (int ky = 0; ky < shape.size; ++ky) {
        const int y = out.y * shape.stride - shape.padding + ky;
        if (y < 0 || y >= shape.in_height) continue;
        for (int kx = 0; kx < shape.size; ++kx) {
          const int x = out.x * shape.stride - shape.padding + kx;
          if (x < 0 || x >= shape.in_width) continue;
          sum += load(input[image_element(out.image, y, x, out.channel, shape.in_height,
                                          shape.in_width, shape.channels)]);
        }
      }
      store(output[i], sum / places);
    }
  }
};

template <class T>
struct AveragePoolGradient {
  PoolShape shape;
  const T* output_gradient;
  T* input_gradient;
  std::size_t count;  ///< inputs
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    const float places = static_cast<float>(shape.size * shape.size);
    for (std::size_t i = at.element(); i < count; i += at.stride()) {
      const ImagePlace in = image_place(i, shape.in_height, shape.in_width, shape.channels);
      const WindowRange rows = shape.windows_on(in.y, shape.out_height);
      const WindowRange columns = shape.windows_on(in.x, shape.out_width);
      float sum = 0;
      for (int y = rows.begin; y < rows.end; ++y)
        for (int x = columns.begin; x < columns.end; ++x)
          sum += load(output_gradient[image_element(in.image, y, x, in.channel, shape.out_height,
                                                    shape.out_width, shape.channels)]);
      store(input_gradient[i], sum / places);
    }
  }
};

/// The input pixels of one direction that an output pixel is the mean of: PyTorch's rule. Windows
/// overlap where the sizes do not divide; there may be fewer inputs than outputs.
DDPRUN_HOST_DEVICE inline WindowRange adaptive_window(int index, int outputs, int inputs) {
  return {index * inputs / outputs, ((index + 1) * inputs + outputs - 1) / outputs};
}
DDPRUN_HOST_DEVICE inline float adaptive_share(const WindowRange& rows,
                                               const WindowRange& columns) {
  return 1.0F / static_cast<float>((rows.end - rows.begin) * (columns.end - columns.begin));
}

/// Size, stride and padding of the shape are not used.
template <class T>
struct AdaptivePoolForward {
  PoolShape shape;
  const T* input;
  T* output;
  std::size_t count;  ///< outputs
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    for (std::size_t i = at.element(); i < count; i += at.stride()) {
      const ImagePlace out = image_place(i, shape.out_height, shape.out_width, shape.channels);
      const WindowRange rows = adaptive_window(out.y, shape.out_height, shape.in_height);
      const WindowRange columns = adaptive_window(out.x, shape.out_width, shape.in_width);
      const float share = adaptive_share(rows, columns);
      float sum = 0;
      for (int y = rows.begin; y < rows.end; ++y)
        for (int x = columns.begin; x < columns.end; ++x)
          sum += share * load(input[image_element(out.image, y, x, out.channel, shape.in_height,
                                                  shape.in_width, shape.channels)]);
      store(output[i], sum);
    }
  }
};

/// One thread an input: the outputs are few, so it looks at all of them.
template <class T>
struct AdaptivePoolGradient {
  PoolShape shape;
  const T* output_gradient;
  T* input_gradient;
  std::size_t count;  ///< inputs
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    for (std::size_t i = at.element(); i < count; i += at.stride()) {
      const ImagePlace in = image_place(i, shape.in_height, shape.in_width, shape.channels);
      float sum = 0;
      for (int y = 0; y < shape.out_height; ++y) {
        const WindowRange rows = adaptive_window(y, shape.out_height, shape.in_height);
        if (in.y < rows.begin || in.y >= rows.end) continue;
        for (int x = 0; x < shape.out_width; ++x) {
          const WindowRange columns = adaptive_window(x, shape.out_width, shape.in_width);
          if (in.x < columns.begin || in.x >= columns.end) continue;
          const std::size_t out = image_element(in.image, y, x, in.channel, shape.out_height,
                                                shape.out_width, shape.channels);
          sum += adaptive_share(rows, columns) * load(output_gradient[out]);
        }
      }
      store(input_gradient[i], sum);
    }
  }
};

/// Twice the height and width; the shape's input is the small image.
template <class T>
struct UpsampleForward {
  PoolShape shape;
  const T* input;
  T* output;
  std::size_t count;  ///< outputs
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    for (std::size_t i = at.element(); i < count; i += at.stride()) {
      const ImagePlace out = image_place(i, shape.out_height, shape.out_width, shape.channels);
      const UpsampleSource rows = upsample_source(out.y, shape.in_height);
      const UpsampleSource columns = upsample_source(out.x, shape.in_width);
      const auto value = [&](int y, int x) {
        return load(input[image_element(out.image, y, x, out.channel, shape.in_height,
                                        shape.in_width, shape.channels)]);
      };
      store(
          output[i],
          upsample_mix(upsample_mix(value(rows.near, columns.near), value(rows.far, columns.near)),
                       upsample_mix(value(rows.near, columns.far), value(rows.far, columns.far))));
    }
  }
};

template <class T>
struct UpsampleGradient {
  PoolShape shape;
  const T* output_gradient;
  T* input_gradient;
  std::size_t count;  ///< inputs
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    for (std::size_t i = at.element(); i < count; i += at.stride()) {
      const ImagePlace in = image_place(i, shape.in_height, shape.in_width, shape.channels);
      const UpsampleReaders rows = upsample_readers(in.y, shape.in_height);
      const UpsampleReaders columns = upsample_readers(in.x, shape.in_width);
      float mixed[4];  // each column's rows
      for (int k = 0; k < 4; ++k) {
        const auto slope = [&](int row) {
          return load(
              output_gradient[image_element(in.image, rows.pixel[row], columns.pixel[k], in.channel,
                                            shape.out_height, shape.out_width, shape.channels)]);
        };
        mixed[k] = upsample_gather(slope(0), slope(1), slope(2), slope(3));
      }
      store(input_gradient[i], upsample_gather(mixed[0], mixed[1], mixed[2], mixed[3]));
    }
  }
};

template <class T>
using PoolKernelsOf = KernelList<MaxPoolForward<T>, MaxPoolGradient<T>, AveragePoolForward<T>,
                                 AveragePoolGradient<T>, AdaptivePoolForward<T>,
                                 AdaptivePoolGradient<T>, UpsampleForward<T>, UpsampleGradient<T>>;
using PoolKernels =
    Concatenated<PoolKernelsOf<float>, PoolKernelsOf<Half>, PoolKernelsOf<BFloat16>>::type;

}  // namespace ddprun::trainer::cuda
