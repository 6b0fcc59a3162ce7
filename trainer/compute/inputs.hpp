// What a pass reads, on its way from the host's memory to fixed places in the device's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/compute/image_windows.hpp"
#include "trainer/compute/storage.hpp"

namespace ddprun::trainer {

/// As they are: `from` is the host's, `to` the device's and at least as large. Behind `from`:
/// zeros. Both sizes are multiples of 4.
struct InputValues {
  std::span<const std::byte> from;
  std::span<std::byte> to;
};

/// Images of one byte a channel, and what a network sees of them: the value of byte b of channel c
/// is tables[c * kByteValues + b]. The tables are the host's, so that all devices see the same
/// bits. Of each image a network sees a window, or without windows all of it.
struct InputImages {
  std::span<const std::uint8_t> pixels;       ///< the host's: samples x height x width x channels
  std::span<const float> tables;              ///< the host's: channels x kByteValues
  Storage storage = Storage::fp32;            ///< of `to`
  std::span<std::byte> to;                    ///< the device's; behind the images: zeros
  std::span<const ImageWindow> windows = {};  ///< the host's: one for each sample, or none
  WindowSides sides = {};                     ///< of the windows

  [[nodiscard]] std::size_t channels() const { return tables.size() / kByteValues; }
  /// Values that the network sees.
  [[nodiscard]] std::size_t values() const {
    if (windows.empty()) return pixels.size();
    return windows.size() * static_cast<std::size_t>(sides.height) *
           static_cast<std::size_t>(sides.width) * channels();
  }
};

struct Inputs {
  static constexpr std::size_t kValuesMost = 4;
  std::vector<InputValues> values;  ///< up to kValuesMost
  InputImages images;               ///< no pixels: none
};

class Device;
/// Inputs by copies of the device, in pieces made on the host.
void copy_inputs(Device& device, const Inputs& inputs);

/// Of the values that a network sees of images (of their pixels, tables and windows) those from
/// `first` on, which is one of channel 0. `values` has whole pixels.
void look_up(const InputImages& images, std::size_t first, std::span<float> values);

}  // namespace ddprun::trainer
