// What a pass reads, on its way from the host's memory to fixed places in the device's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/compute/storage.hpp"

namespace ddprun::trainer {

/// Values of a byte.
inline constexpr std::size_t kByteValues = 256;

/// As they are: `from` is the host's, `to` the device's and at least as large. Behind `from`:
/// zeros. Both sizes are multiples of 4.
struct InputValues {
  std::span<const std::byte> from;
  std::span<std::byte> to;
};

/// Images of one byte a channel, and what a network sees of them: the value of byte b of channel c
/// is tables[c * kByteValues + b]. The tables are the host's, so that all devices see the same
/// bits.
struct InputImages {
  std::span<const std::uint8_t> pixels;  ///< the host's: samples x height x width x channels
  std::span<const float> tables;         ///< the host's: channels x kByteValues
  Storage storage = Storage::fp32;       ///< of `to`
  std::span<std::byte> to;               ///< the device's; behind the images: zeros
};

struct Inputs {
  static constexpr std::size_t kValuesMost = 4;
  std::vector<InputValues> values;  ///< up to kValuesMost
  InputImages images;               ///< no pixels: none
};

class Device;
/// Inputs by copies of the device, in pieces made on the host.
void copy_inputs(Device& device, const Inputs& inputs);

/// The values of images, as many as pixels. These begin with channel 0.
void look_up(std::span<const std::uint8_t> pixels, std::span<const float> tables,
             std::span<float> values);

}  // namespace ddprun::trainer
