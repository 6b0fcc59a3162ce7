#include "trainer/compute/inputs.hpp"

#include <algorithm>
#include <array>

#include "base/assert.hpp"
#include "trainer/compute/device.hpp"

namespace ddprun::trainer {
namespace {

/// Values that are made at once: they stay in the cache.
constexpr std::size_t kPieceValues = 4096;

}  // namespace

void look_up(std::span<const std::uint8_t> pixels, std::span<const float> tables,
             std::span<float> values) {
  DDPRUN_ASSERT(pixels.size() == values.size(), "a value for each byte");
  const std::size_t channels = tables.size() / kByteValues;
  if (channels == 1) {
    for (std::size_t i = 0; i < pixels.size(); ++i) values[i] = tables[pixels[i]];
    return;
  }
  for (std::size_t i = 0; i < pixels.size(); i += channels)
    for (std::size_t c = 0; c < channels; ++c)
      values[i + c] = tables[c * kByteValues + pixels[i + c]];
}

void copy_inputs(Device& device, const Inputs& inputs) {
  for (const InputValues& one : inputs.values) {
    device.copy_in(one.from, one.to.data());
    device.clear(one.to.subspan(one.from.size()));
  }
  const InputImages& images = inputs.images;
  if (images.pixels.empty()) return;
  const std::size_t value_bytes = bytes_of(images.storage);
  std::array<float, kPieceValues> piece;
  const std::size_t channels = images.tables.size() / kByteValues;
  const std::size_t most = piece.size() / channels * channels;
  for (std::size_t at = 0; at < images.pixels.size(); at += most) {
    const std::size_t count = std::min(most, images.pixels.size() - at);
    const std::span<float> values(piece.data(), count);
    look_up(images.pixels.subspan(at, count), images.tables, values);
    device.copy_in(images.storage, values, images.to.data() + at * value_bytes);
  }
  device.clear(images.to.subspan(images.pixels.size() * value_bytes));
}

}  // namespace ddprun::trainer
