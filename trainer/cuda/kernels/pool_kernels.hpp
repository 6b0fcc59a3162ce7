// Pooling over windows, and enlarging; channels-last. A thread makes the values of one pixel's
// channels that fill a pack, or of one channel; each value is summed by one thread, in one order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/compute/layer_ops.hpp"
#include "trainer/compute/numeric.hpp"
#include "trainer/cuda/kernel.hpp"
#include "trainer/cuda/kernels/image_places.hpp"
#include "trainer/cuda/kernels/packs.hpp"

namespace ddprun::trainer::cuda {

/// A nan wins; of equal values the first one. winners: for each output the place in its window.
template <class T>
struct MaxPoolForward {
  static constexpr std::size_t kValues = kPackValues<T>;
  PoolShape shape;
  const T* input;
  T* output;
  std::int32_t* winners;
  std::size_t count;  ///< outputs
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    if (shape.fills_packs<kValues>() && lie_as_packs<kValues>(input, output, winners)) {
      run<kValues>(at);
    } else {
      run<1>(at);
    }
  }

 private:
  template <std::size_t kCount>
  DDPRUN_HOST_DEVICE void run(const ThreadPlace& at) const {
    each_pack<kCount>(at, count, [&](std::size_t i) {
      const ImagePlace out = image_place(i, shape.out_height, shape.out_width, shape.channels);
      Pack<float, kCount> largest{};
      Pack<std::int32_t, kCount> winner;
      for (std::size_t k = 0; k < kCount; ++k) winner.values[k] = -1;
      for (int ky = 0; ky < shape.size; ++ky) {
        const int y = out.y * shape.stride - shape.padding + ky;
        if (y < 0 || y >= shape.in_height) continue;
        for (int kx = 0; kx < shape.size; ++kx) {
          const int x = out.x * shape.stride - shape.padding + kx;
          if (x < 0 || x >= shape.in_width) continue;
          const auto values =
              read_pack<kCount>(input + image_element(out.image, y, x, out.channel, shape.in_height,
                                                      shape.in_width, shape.channels));
          for (std::size_t k = 0; k < kCount; ++k) {
            const float value = load(values.values[k]);
            if (winner.values[k] < 0 || value > largest.values[k] || value != value) {
              largest.values[k] = value;
              winner.values[k] = ky * shape.size + kx;
            }
          }
        }
      }
      write_floats(output + i, largest);
      write_pack(winners + i, winner);
    });
  }
};

/// One thread an input: adds the gradients of the windows that it won, from the first window on.
template <class T>
struct MaxPoolGradient {
  static constexpr std::size_t kValues = kPackValues<T>;
  PoolShape shape;
  const T* output_gradient;
  const std::int32_t* winners;
  T* input_gradient;
  std::size_t count;  ///< inputs
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    if (shape.fills_packs<kValues>() &&
        lie_as_packs<kValues>(output_gradient, winners, input_gradient)) {
      run<kValues>(at);
    } else {
      run<1>(at);
    }
  }

 private:
  template <std::size_t kCount>
  DDPRUN_HOST_DEVICE void run(const ThreadPlace& at) const {
    each_pack<kCount>(at, count, [&](std::size_t i) {
      const ImagePlace in = image_place(i, shape.in_height, shape.in_width, shape.channels);
      const WindowRange rows = shape.windows_on(in.y, shape.out_height);
      const WindowRange columns = shape.windows_on(in.x, shape.out_width);
      Pack<float, kCount> sums{};
      for (int y = rows.begin; y < rows.end; ++y) {
        for (int x = columns.begin; x < columns.end; ++x) {
          const int place = (in.y + shape.padding - y * shape.stride) * shape.size +
                            (in.x + shape.padding - x * shape.stride);
          const std::size_t out = image_element(in.image, y, x, in.channel, shape.out_height,
                                                shape.out_width, shape.channels);
          const auto won = read_pack<kCount>(winners + out);
          const auto slopes = read_pack<kCount>(output_gradient + out);
          for (std::size_t k = 0; k < kCount; ++k)
            if (won.values[k] == place) sums.values[k] += load(slopes.values[k]);
        }
      }
      write_floats(input_gradient + i, sums);
    });
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
  static constexpr std::size_t kValues = kPackValues<T>;
  PoolShape shape;
  const T* input;
  T* output;
  std::size_t count;  ///< outputs
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    if (shape.fills_packs<kValues>() && lie_as_packs<kValues>(input, output)) {
      run<kValues>(at);
    } else {
      run<1>(at);
    }
  }

 private:
  template <std::size_t kCount>
  DDPRUN_HOST_DEVICE void run(const ThreadPlace& at) const {
    each_pack<kCount>(at, count, [&](std::size_t i) {
      const ImagePlace out = image_place(i, shape.out_height, shape.out_width, shape.channels);
      const WindowRange rows = adaptive_window(out.y, shape.out_height, shape.in_height);
      const WindowRange columns = adaptive_window(out.x, shape.out_width, shape.in_width);
      const float share = adaptive_share(rows, columns);
      Pack<float, kCount> sums{};
      for (int y = rows.begin; y < rows.end; ++y)
        for (int x = columns.begin; x < columns.end; ++x)
          add_floats(sums,
                     read_floats<kCount>(input + image_element(out.image, y, x, out.channel,
                                                               shape.in_height, shape.in_width,
                                                               shape.channels)),
                     share);
      write_floats(output + i, sums);
    });
  }
};

/// One thread an input: the outputs are few, so it looks at all of them.
template <class T>
struct AdaptivePoolGradient {
  static constexpr std::size_t kValues = kPackValues<T>;
  PoolShape shape;
  const T* output_gradient;
  T* input_gradient;
  std::size_t count;  ///< inputs
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    if (shape.fills_packs<kValues>() && lie_as_packs<kValues>(output_gradient, input_gradient)) {
      run<kValues>(at);
    } else {
      run<1>(at);
    }
  }

 private:
  template <std::size_t kCount>
  DDPRUN_HOST_DEVICE void run(const ThreadPlace& at) const {
    each_pack<kCount>(at, count, [&](std::size_t i) {
      const ImagePlace in = image_place(i, shape.in_height, shape.in_width, shape.channels);
      Pack<float, kCount> sums{};
      for (int y = 0; y < shape.out_height; ++y) {
        const WindowRange rows = adaptive_window(y, shape.out_height, shape.in_height);
        if (in.y < rows.begin || in.y >= rows.end) continue;
        for (int x = 0; x < shape.out_width; ++x) {
          const WindowRange columns = adaptive_window(x, shape.out_width, shape.in_width);
          if (in.x < columns.begin || in.x >= columns.end) continue;
          const std::size_t out = image_element(in.image, y, x, in.channel, shape.out_height,
                                                shape.out_width, shape.channels);
          add_floats(sums, read_floats<kCount>(output_gradient + out),
                     adaptive_share(rows, columns));
        }
      }
      write_floats(input_gradient + i, sums);
    });
  }
};

/// Twice the height and width; the shape's input is the small image.
template <class T>
struct UpsampleForward {
  static constexpr std::size_t kValues = kPackValues<T>;
  PoolShape shape;
  const T* input;
  T* output;
  std::size_t count;  ///< outputs
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    if (shape.fills_packs<kValues>() && lie_as_packs<kValues>(input, output)) {
      run<kValues>(at);
    } else {
      run<1>(at);
    }
  }

 private:
  template <std::size_t kCount>
  DDPRUN_HOST_DEVICE void run(const ThreadPlace& at) const {
    each_pack<kCount>(at, count, [&](std::size_t i) {
      const ImagePlace out = image_place(i, shape.out_height, shape.out_width, shape.channels);
      const UpsampleSource rows = upsample_source(out.y, shape.in_height);
      const UpsampleSource columns = upsample_source(out.x, shape.in_width);
      const auto values = [&](int y, int x) {
        return read_floats<kCount>(input + image_element(out.image, y, x, out.channel,
                                                         shape.in_height, shape.in_width,
                                                         shape.channels));
      };
      const auto near_near = values(rows.near, columns.near);
      const auto far_near = values(rows.far, columns.near);
      const auto near_far = values(rows.near, columns.far);
      const auto far_far = values(rows.far, columns.far);
      Pack<float, kCount> mixed;
      for (std::size_t k = 0; k < kCount; ++k)
        mixed.values[k] = upsample_mix(upsample_mix(near_near.values[k], far_near.values[k]),
                                       upsample_mix(near_far.values[k], far_far.values[k]));
      write_floats(output + i, mixed);
    });
  }
};

template <class T>
struct UpsampleGradient {
  static constexpr std::size_t kValues = kPackValues<T>;
  PoolShape shape;
  const T* output_gradient;
  T* input_gradient;
  std::size_t count;  ///< inputs
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    if (shape.fills_packs<kValues>() && lie_as_packs<kValues>(output_gradient, input_gradient)) {
      run<kValues>(at);
    } else {
      run<1>(at);
    }
  }

 private:
  template <std::size_t kCount>
  DDPRUN_HOST_DEVICE void run(const ThreadPlace& at) const {
    each_pack<kCount>(at, count, [&](std::size_t i) {
      const ImagePlace in = image_place(i, shape.in_height, shape.in_width, shape.channels);
      const UpsampleReaders rows = upsample_readers(in.y, shape.in_height);
      const UpsampleReaders columns = upsample_readers(in.x, shape.in_width);
      Pack<float, kCount> mixed[4];  // each column's rows
      for (int column = 0; column < 4; ++column) {
        const auto slopes = [&](int row) {
          return read_floats<kCount>(output_gradient +
                                     image_element(in.image, rows.pixel[row], columns.pixel[column],
                                                   in.channel, shape.out_height, shape.out_width,
                                                   shape.channels));
        };
        mixed[column] = gather<kCount>(slopes(0), slopes(1), slopes(2), slopes(3));
      }
      write_floats(input_gradient + i, gather<kCount>(mixed[0], mixed[1], mixed[2], mixed[3]));
    });
  }
  template <std::size_t kCount>
  DDPRUN_HOST_DEVICE static Pack<float, kCount> gather(const Pack<float, kCount>& a,
                                                       const Pack<float, kCount>& b,
                                                       const Pack<float, kCount>& c,
                                                       const Pack<float, kCount>& d) {
    Pack<float, kCount> all;
    for (std::size_t k = 0; k < kCount; ++k)
      all.values[k] = upsample_gather(a.values[k], b.values[k], c.values[k], d.values[k]);
    return all;
  }
};

template <class T>
using PoolKernelsOf = KernelList<MaxPoolForward<T>, MaxPoolGradient<T>, AdaptivePoolForward<T>,
                                 AdaptivePoolGradient<T>, UpsampleForward<T>, UpsampleGradient<T>>;
using PoolKernels =
    Concatenated<PoolKernelsOf<float>, PoolKernelsOf<Half>, PoolKernelsOf<BFloat16>>::type;

}  // namespace ddprun::trainer::cuda
