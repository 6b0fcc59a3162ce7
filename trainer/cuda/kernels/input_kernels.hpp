// The inputs of a pass, from the buffer in which they arrive to the places that the pass reads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/compute/image_windows.hpp"
#include "trainer/compute/numeric.hpp"
#include "trainer/cuda/kernel.hpp"

namespace ddprun::trainer::cuda {

/// Samples of a set, one behind the other, each with zeros behind it. A word is a byte, or 4 where
/// all that it is given in bytes is a multiple of that.
template <class Word>
struct GatherRows {
  const Word* set;
  const StoredRow* rows;
  Word* to;
  std::size_t count;  ///< words of all rows
  std::size_t row_words;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    for (std::size_t i = at.element(); i < count; i += at.stride()) {
      const StoredRow& row = rows[i / row_words];
      const std::size_t word = i % row_words;
      to[i] = word < row.size / sizeof(Word) ? set[row.begin / sizeof(Word) + word] : Word{0};
    }
  }
};

/// Values of 4 bytes as they are, and zeros behind them.
struct PlaceValues {
  static constexpr int kPartsMost = 4;
  struct Part {
    const std::uint32_t* from;
    std::uint32_t* to;
    std::size_t count;
    std::size_t whole;  ///< with the zeros
  };
  Part parts[kPartsMost];
  int part_count;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    for (int k = 0; k < part_count; ++k) {
      const Part& part = parts[k];
      for (std::size_t i = at.element(); i < part.whole; i += at.stride())
        part.to[i] = i < part.count ? part.from[i] : 0;
    }
  }
};

/// Bytes of images by a table of each channel, and zeros behind them.
template <class T>
struct PixelsToValues {
  const std::uint8_t* pixels;
  const float* tables;  ///< channels x kByteValues
  T* to;
  std::size_t count;
  std::size_t whole;  ///< with the zeros
  unsigned channels;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    for (std::size_t i = at.element(); i < whole; i += at.stride())
      store(to[i], i < count ? tables[i % channels * kByteValues + pixels[i]] : 0.0F);
  }
};

/// Makes values of the bytes in a window of each image, and zeros behind them.
template <class T>
struct WindowsToValues {
  WindowValues values;
  T* to;
  std::size_t count;
  std::size_t whole;  ///< with the zeros
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    for (std::size_t i = at.element(); i < whole; i += at.stride())
      store(to[i], i < count ? values.at(i) : 0.0F);
  }
};

using InputKernels =
    KernelList<GatherRows<std::uint8_t>, GatherRows<std::uint32_t>, PlaceValues,
               PixelsToValues<float>, PixelsToValues<Half>, PixelsToValues<BFloat16>,
               WindowsToValues<float>, WindowsToValues<Half>, WindowsToValues<BFloat16>>;

}  // namespace ddprun::trainer::cuda
