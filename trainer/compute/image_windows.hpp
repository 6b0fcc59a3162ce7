// What a network sees of a picture: a window of it, perhaps mirrored, by a table of values. One
// pass from bytes to values, with the same functors on the host and on a GPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/compute/host_device.hpp"
#include "trainer/compute/philox.hpp"

namespace ddprun::trainer {

/// In bytes.
struct StoredRow {
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
};

/// Values of a byte.
inline constexpr std::size_t kByteValues = 256;

/// Sides of pictures as they are stored, and of the windows that are taken of them.
struct WindowSides {
  std::int32_t from_height = 0;
  std::int32_t from_width = 0;
  std::int32_t height = 0;
  std::int32_t width = 0;
};

/// Where the upper left corner of a window lies in its picture. It may lie outside: there pixels
/// are 0. A mirrored one has its columns from right to left.
struct ImageWindow {
  std::int32_t row = 0;
  std::int32_t column = 0;
  std::int32_t is_mirrored = 0;
  friend bool operator==(const ImageWindow& a, const ImageWindow& b) {
    return a.row == b.row && a.column == b.column && a.is_mirrored == b.is_mirrored;
  }
};

/// The number of the picture's pixel that a window has at (row, column), counted row by row; -1:
/// one outside.
DDPRUN_HOST_DEVICE inline std::int64_t pixel_of(const ImageWindow& window, const WindowSides& sides,
                                                std::int32_t row, std::int32_t column) {
  const std::int32_t from_row = window.row + row;
  const std::int32_t from_column =
      window.column + (window.is_mirrored != 0 ? sides.width - 1 - column : column);
  const bool is_inside = from_row >= 0 && from_row < sides.from_height && from_column >= 0 &&
                         from_column < sides.from_width;
  return is_inside ? std::int64_t{from_row} * sides.from_width + from_column : -1;
}

/// The values of windows, each with the place of its sample.
struct WindowValues {
  const std::uint8_t* pixels;  ///< samples x from_height x from_width x channels
  const ImageWindow* windows;  ///< of each sample
  const float* tables;         ///< channels x kByteValues
  WindowSides sides;
  std::uint32_t channels;

  /// The value of one channel of a pixel; outside the picture that of the byte 0.
  [[nodiscard]] DDPRUN_HOST_DEVICE float at(std::size_t sample, std::int32_t row,
                                            std::int32_t column, std::uint32_t channel) const {
    const std::int64_t pixel = pixel_of(windows[sample], sides, row, column);
    if (pixel < 0) return tables[channel * kByteValues];
    const std::size_t picture = sample * static_cast<std::size_t>(sides.from_height) *
                                static_cast<std::size_t>(sides.from_width);
    return tables[channel * kByteValues +
                  pixels[(picture + static_cast<std::size_t>(pixel)) * channels + channel]];
  }
  /// The value at a place in their order: samples x height x width x channels.
  [[nodiscard]] DDPRUN_HOST_DEVICE float at(std::size_t element) const {
    const auto width = static_cast<std::size_t>(sides.width);
    const auto height = static_cast<std::size_t>(sides.height);
    const std::size_t pixel = element / channels;
    return at(pixel / width / height, static_cast<std::int32_t>(pixel / width % height),
              static_cast<std::int32_t>(pixel % width),
              static_cast<std::uint32_t>(element % channels));
  }
};

/// How windows are drawn in training.
struct WindowChance {
  /// Rows and columns of zeros around the picture that a window may have.
  std::int32_t padding = 0;
  std::int32_t mirrors = 0;  ///< half of the windows, by chance
};

/// Part of the key, so that dropout and initial values come from other keys.
inline constexpr std::uint32_t kWindowKey = 0x77696e64U;  // "wind"

/// The window of sample `sample` of the training set in `epoch`. With the words of
///
///   Philox(counter = {sample, 0, epoch low, epoch high},
///          key = {seed low, seed high xor kWindowKey})
///
/// the row is -padding + word 0 * places / 2^32, where places is from_height + 2 * padding - height
/// + 1, which has to be 1 or more; the column the same with word 1; it is mirrored if word 2 is
/// odd. A pure function: neither ranks nor shards nor the order of samples change it.
DDPRUN_HOST_DEVICE inline ImageWindow draw_window(const WindowSides& sides,
                                                  const WindowChance& chance, std::uint64_t seed,
                                                  std::uint64_t epoch, std::uint32_t sample) {
  const PhiloxBlock words = philox(
      {{sample, 0, static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(epoch >> 32)}},
      static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32) ^ kWindowKey);
  const auto place = [&](std::uint32_t word, std::int32_t from, std::int32_t to) {
    const auto places = static_cast<std::uint64_t>(from + 2 * chance.padding - to + 1);
    return static_cast<std::int32_t>(word * places >> 32) - chance.padding;
  };
  return {place(words.word[0], sides.from_height, sides.height),
          place(words.word[1], sides.from_width, sides.width),
          chance.mirrors != 0 ? static_cast<std::int32_t>(words.word[2] & 1U) : 0};
}

/// The window in the middle: torchvision's CenterCrop. It rounds half to even, and a window that is
/// larger than the picture has the smaller half of the zeros above and to the left.
DDPRUN_HOST_DEVICE inline ImageWindow centre_window(const WindowSides& sides) {
  const auto place = [](std::int32_t from, std::int32_t to) {
    if (to > from) return -((to - from) / 2);
    const std::int32_t half = (from - to) / 2;
    return (from - to) % 2 == 0 ? half : half + half % 2;
  };
  return {place(sides.from_height, sides.height), place(sides.from_width, sides.width), 0};
}

}  // namespace ddprun::trainer
