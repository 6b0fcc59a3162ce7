// Layers that work element by element, and those that only move values.
#pragma once

#include <cstddef>

#include "trainer/compute/activation_ops.hpp"
#include "trainer/compute/ops.hpp"
#include "trainer/cuda/kernel.hpp"

namespace ddprun::trainer::cuda {

// T: float, Half, BFloat16.

template <class T>
struct ReluForward {
  const T* input;
  T* output;
  std::size_t count;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    for (std::size_t i = at.element(); i < count; i += at.stride()) Relu{}(output[i], input[i]);
  }
};

template <class T>
struct ReluGradient {
  const T* output_gradient;
  const T* output;
  T* input_gradient;
  std::size_t count;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    for (std::size_t i = at.element(); i < count; i += at.stride())
      ReluBackward{}(input_gradient[i], output_gradient[i], output[i]);
  }
};

/// May add in place.
template <class T>
struct AddValues {
  const T* a;
  const T* b;
  T* sum;
  std::size_t count;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    for (std::size_t i = at.element(); i < count; i += at.stride()) Add{}(sum[i], a[i], b[i]);
  }
};

/// values[row][channel] += bias[channel]
template <class T>
struct AddBias {
  T* values;
  const T* bias;
  std::size_t channels;
  std::size_t count;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    for (std::size_t i = at.element(); i < count; i += at.stride())
      store(values[i], load(values[i]) + load(bias[i % channels]));
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
  const T* from;
  T* to;
  std::size_t from_channels, from_first;
  std::size_t to_channels, to_first;
  std::size_t channels;
  std::size_t count;  ///< pixels x channels
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    for (std::size_t i = at.element(); i < count; i += at.stride()) {
      const std::size_t pixel = i / channels;
      const std::size_t channel = i % channels;
      to[pixel * to_channels + to_first + channel] =
          from[pixel * from_channels + from_first + channel];
    }
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
  const T* input;
  T* output;
  std::size_t count;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    for (std::size_t i = at.element(); i < count; i += at.stride()) Function{}(output[i], input[i]);
  }
};

/// `kept`: what the slope is computed from, GELU's input or tanh's output.
template <class T, class Function>
struct ActivationGradient {
  const T* output_gradient;
  const T* kept;
  T* input_gradient;
  std::size_t count;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    for (std::size_t i = at.element(); i < count; i += at.stride())
      Function{}(input_gradient[i], output_gradient[i], kept[i]);
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
