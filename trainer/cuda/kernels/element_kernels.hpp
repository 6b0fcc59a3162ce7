// Layers that work element by element, and those that only move values.
#pragma once

#include <cstddef>

#include "trainer/compute/layer_ops.hpp"
#include "trainer/compute/ops.hpp"
#include "trainer/cuda/kernel.hpp"
#include "trainer/cuda/kernels/packs.hpp"

namespace ddprun::trainer::cuda {

// T: float, Half, BFloat16.

template <class T>
struct ReluForward {
  static constexpr std::size_t kValues = kPackValues<T>;
  const T* input;
  T* output;
  std::size_t count;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    map_values(at, count, output, Relu{}, input);
  }
};

template <class T>
struct ReluGradient {
  static constexpr std::size_t kValues = kPackValues<T>;
  const T* output_gradient;
  const T* output;
  T* input_gradient;
  std::size_t count;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    map_values(at, count, input_gradient, ReluBackward{}, output_gradient, output);
  }
};

/// May add in place.
template <class T>
struct AddValues {
  static constexpr std::size_t kValues = kPackValues<T>;
  const T* a;
  const T* b;
  T* sum;
  std::size_t count;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    map_values(at, count, sum, Add{}, a, b);
  }
};

/// values[row][channel] += bias[channel]
template <class T>
struct AddBias {
  static constexpr std::size_t kValues = kPackValues<T>;
  T* values;
  const T* bias;
  std::size_t channels;
  std::size_t count;  ///< a multiple of `channels`
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    if (channels % kValues == 0 && lie_as_packs<kValues>(values, bias)) {
      add<kValues>(at);
    } else {
      add<1>(at);
    }
  }

 private:
  template <std::size_t kCount>
  DDPRUN_HOST_DEVICE void add(const ThreadPlace& at) const {
    each_pack<kCount>(at, count, [&](std::size_t i) {
      map_pack<kCount>(values + i, Add{}, read_pack<kCount>(values + i),
                       read_pack<kCount>(bias + i % channels));
    });
  }
};

/// Each image's rows x columns become columns x rows.
template <class T>
struct TransposeImages {
  const T* from;
  T* to;
  std::size_t rows, columns;
  std::size_t count;  ///< of all images
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    const std::size_t image = rows * columns;
    for (std::size_t i = at.element(); i < count; i += at.stride()) {
      const std::size_t within = i % image;
      to[i] = from[i - within + within % rows * columns + within / rows];
    }
  }
};

/// Copies a range of `channels` channels between images with other numbers of channels.
template <class T>
struct CopyChannels {
  static constexpr std::size_t kValues = kPackValues<T>;
  const T* from;
  T* to;
  std::size_t from_channels, from_first;
  std::size_t to_channels, to_first;
  std::size_t channels;
  std::size_t count;  ///< pixels x channels
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    const bool fits = channels % kValues == 0 && from_channels % kValues == 0 &&
                      from_first % kValues == 0 && to_channels % kValues == 0 &&
                      to_first % kValues == 0 && lie_as_packs<kValues>(from, to);
    if (fits) {
      copy<kValues>(at);
    } else {
      copy<1>(at);
    }
  }

 private:
  template <std::size_t kCount>
  DDPRUN_HOST_DEVICE void copy(const ThreadPlace& at) const {
    each_pack<kCount>(at, count, [&](std::size_t i) {
      const std::size_t pixel = i / channels;
      const std::size_t channel = i % channels;
      map_pack<kCount>(
          to + pixel * to_channels + to_first + channel,
          [](T& copied, const T& value) { copied = value; },
          read_pack<kCount>(from + pixel * from_channels + from_first + channel));
    });
  }
};

/// Copies rows of channels into rows with more channels, and maybe more rows: zeros there.
template <class T>
struct PadChannels {
  const T* from;
  T* to;
  std::size_t channels, rows;
  std::size_t padded_channels;
  std::size_t count;  ///< of all padded rows
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    for (std::size_t i = at.element(); i < count; i += at.stride()) {
      const std::size_t row = i / padded_channels;
      const std::size_t channel = i % padded_channels;
      if (row < rows && channel < channels) {
        to[i] = from[row * channels + channel];
      } else {
        store(to[i], 0.0F);
      }
    }
  }
};

/// Gelu, Tanh.
template <class T, class Function>
struct Activate {
  static constexpr std::size_t kValues = kPackValues<T>;
  const T* input;
  T* output;
  std::size_t count;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    map_values(at, count, output, Function{}, input);
  }
};

/// `kept`: what the slope is computed from, GELU's input or tanh's output.
template <class T, class Function>
struct ActivationGradient {
  static constexpr std::size_t kValues = kPackValues<T>;
  const T* output_gradient;
  const T* kept;
  T* input_gradient;
  std::size_t count;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    map_values(at, count, input_gradient, Function{}, output_gradient, kept);
  }
};

template <class T>
using ElementKernelsOf =
    KernelList<ReluForward<T>, ReluGradient<T>, AddValues<T>, AddBias<T>, TransposeImages<T>,
               CopyChannels<T>, PadChannels<T>, Activate<T, Gelu>, Activate<T, Tanh>,
               ActivationGradient<T, GeluBackward>, ActivationGradient<T, TanhBackward>>;
using ElementKernels =
    Concatenated<ElementKernelsOf<float>, ElementKernelsOf<Half>, ElementKernelsOf<BFloat16>>::type;

}  // namespace ddprun::trainer::cuda
