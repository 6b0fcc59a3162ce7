// Dropout: the mask is computed where it is used, in both directions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/compute/dropout_ops.hpp"
#include "trainer/compute/step_state.hpp"
#include "trainer/cuda/kernel.hpp"
#include "trainer/cuda/kernels/packs.hpp"

namespace ddprun::trainer::cuda {

/// A mask but for its step and shard, which are in the GPU's memory.
struct MaskPlace {
  DropoutRate rate;
  DropoutPlace place;
  const StepState* state;
  const std::int32_t* shard;
  [[nodiscard]] DDPRUN_HOST_DEVICE DropoutMask mask() const {
    DropoutPlace now = place;
    now.step = steps_done(*state);
    now.shard = static_cast<std::uint16_t>(shard_number(shard));
    return {rate, now};
  }
};

/// Rows of `row` values; the mask numbers those of row r from r * mask_stride on, a multiple of
/// four. One thread four values.
template <class T>
struct DropValues {
  MaskPlace place;
  const T* from;
  T* to;
  std::size_t rows, row, mask_stride;
  [[nodiscard]] DDPRUN_HOST_DEVICE std::size_t threads() const { return rows * fours(); }
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    const bool fits = row % kFour == 0 && lie_as_packs<kFour>(from, to);
    const DropoutMask mask = place.mask();
    for (std::size_t four = at.element(); four < threads(); four += at.stride()) {
      const std::size_t r = four / fours();
      const std::size_t begin = four % fours() * kFour;
      const PhiloxBlock words =
          mask.words(static_cast<std::uint32_t>((r * mask_stride + begin) / kFour));
      const std::size_t first = r * row + begin;
      if (fits) {
        drop(mask, words, first);
      } else {
        for (std::size_t k = 0; k < kFour && begin + k < row; ++k)
          Dropout{}(to[first + k], from[first + k], mask.factor_of_word(words.word[k]));
      }
    }
  }

 private:
  static constexpr std::size_t kFour = 4;

  DDPRUN_HOST_DEVICE void drop(const DropoutMask& mask, const PhiloxBlock& words,
                               std::size_t first) const {
    const auto values = read_pack<kFour>(from + first);
    Pack<T, kFour> result;
    for (std::size_t k = 0; k < kFour; ++k)
      Dropout{}(result.values[k], values.values[k], mask.factor_of_word(words.word[k]));
    write_pack(to + first, result);
  }
  [[nodiscard]] DDPRUN_HOST_DEVICE std::size_t fours() const { return (row + kFour - 1) / kFour; }
};

/// Whole channels of images of pixels x channels.
template <class T>
struct DropChannels {
  MaskPlace place;
  const T* from;
  T* to;
  std::size_t pixels;
  std::uint32_t channels;
  std::size_t count;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    const DropoutMask mask = place.mask();
    for (std::size_t i = at.element(); i < count; i += at.stride()) {
      const auto channel = static_cast<std::uint32_t>(i % channels);
      const std::uint64_t element = channel_element(i / (pixels * channels), channel, channels);
      Dropout{}(to[i], from[i], mask.factor(element));
    }
  }
};

template <class T>
using DropoutKernelsOf = KernelList<DropValues<T>, DropChannels<T>>;
using DropoutKernels =
    Concatenated<DropoutKernelsOf<float>, DropoutKernelsOf<Half>, DropoutKernelsOf<BFloat16>>::type;

}  // namespace ddprun::trainer::cuda
