// What a pass reads, on its way from the host's memory to fixed places in the device's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/compute/image_windows.hpp"
#include "trainer/compute/numeric.hpp"

namespace ddprun::trainer {

/// Samples of a whole set that lies in the device's memory: the device gathers them, one behind the
/// other.
struct StoredRows {
  std::span<const std::byte> set = {};   ///< of Device::allocate_samples()
  std::span<const StoredRow> rows = {};  ///< the host's: where in it each sample lies
  std::size_t row_bytes = 0;             ///< of each, once gathered: zeros behind what it has

  [[nodiscard]] std::size_t bytes() const { return rows.size() * row_bytes; }
};

/// As they are: `from` is the host's, or `stored` is given instead; `to` is the device's and at
/// least as large. Behind them: zeros. All sizes are multiples of 4.
struct InputValues {
  std::span<const std::byte> from;
  std::span<std::byte> to;
  StoredRows stored = {};

  [[nodiscard]] std::size_t bytes() const { return from.size() + stored.bytes(); }
};

/// Images of one byte a channel, and what a network sees of them: the value of byte b of channel c
/// is tables[c * kByteValues + b]. The tables are the host's, so that all devices see the same
/// bits. Of each image a network sees a window, or without windows all of it.
struct InputImages {
  std::span<const std::uint8_t> pixels = {};  ///< the host's: samples x height x width x channels
  std::span<const float> tables = {};         ///< the host's: channels x kByteValues
  Storage storage = Storage::fp32;            ///< of `to`
  std::span<std::byte> to = {};               ///< the device's; behind the images: zeros
  std::span<const ImageWindow> windows = {};  ///< the host's: one for each sample, or none
  WindowSides sides = {};                     ///< of the windows
  StoredRows stored = {};                     ///< instead of `pixels`

  [[nodiscard]] std::size_t channels() const { return tables.size() / kByteValues; }
  [[nodiscard]] std::size_t bytes() const { return pixels.size() + stored.bytes(); }
  /// Values that the network sees.
  [[nodiscard]] std::size_t values() const {
    if (windows.empty()) return bytes();
    return windows.size() * static_cast<std::size_t>(sides.height) *
           static_cast<std::size_t>(sides.width) * channels();
  }
};

struct Inputs {
  static constexpr std::size_t kValuesMost = 4;
  std::vector<InputValues> values;  ///< up to kValuesMost
  InputImages images;               ///< no pixels: none
  InputImages masks = {};           ///< of one channel, as floats; no pixels: none
};

/// The tables of a mask: 0 to 1, as a loss wants it.
std::span<const float> mask_tables();

class Device;
/// Inputs by copies of the device, in pieces made on the host. None of them is stored.
void copy_inputs(Device& device, const Inputs& inputs);

/// Gives the values that a network sees of images (of their pixels, tables and windows), from
/// `first` on, which is one of channel 0. `values` has whole pixels.
void look_up(const InputImages& images, std::size_t first, std::span<float> values);

}  // namespace ddprun::trainer
