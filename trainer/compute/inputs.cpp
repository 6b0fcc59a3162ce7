#include "trainer/compute/inputs.hpp"

#include <algorithm>
#include <array>

#include "base/assert.hpp"
#include "trainer/compute/device.hpp"

namespace ddprun::trainer {
namespace {

/// Values that are made at once: they stay in the cache.
constexpr std::size_t kPieceValues = 4096;

void look_up_whole(std::span<const std::uint8_t> pixels, std::span<const float> tables,
                   std::span<float> values) {
  const std::size_t channels = tables.size() / kByteValues;
  if (channels == 1) {
    for (std::size_t i = 0; i < pixels.size(); ++i) values[i] = tables[pixels[i]];
    return;
  }
  for (std::size_t i = 0; i < pixels.size(); i += channels)
    for (std::size_t c = 0; c < channels; ++c)
      values[i + c] = tables[c * kByteValues + pixels[i + c]];
}

/// WindowValues::at() of one element after the other, without its divisions.
void look_up_windows(const InputImages& images, std::size_t first, std::span<float> values) {
  const auto channels = static_cast<std::uint32_t>(images.channels());
  const WindowSides& sides = images.sides;
  const WindowValues source{.pixels = images.pixels.data(),
                            .windows = images.windows.data(),
                            .tables = images.tables.data(),
                            .sides = sides,
                            .channels = channels};
  const auto width = static_cast<std::size_t>(sides.width);
  const auto height = static_cast<std::size_t>(sides.height);
  const std::size_t pixel = first / channels;
  std::size_t sample = pixel / width / height;
  auto row = static_cast<std::int32_t>(pixel / width % height);
  auto column = static_cast<std::int32_t>(pixel % width);
  for (std::size_t i = 0; i < values.size(); i += channels) {
    for (std::uint32_t c = 0; c < channels; ++c) values[i + c] = source.at(sample, row, column, c);
    if (++column < sides.width) continue;
    column = 0;
    if (++row < sides.height) continue;
    row = 0;
    ++sample;
  }
}

void copy_images(Device& device, const InputImages& images) {
  DDPRUN_ASSERT(images.stored.rows.empty(), "samples of the host's memory");
  if (images.pixels.empty()) return;
  const std::size_t value_bytes = bytes_of(images.storage);
  std::array<float, kPieceValues> piece;
  const std::size_t most = piece.size() / images.channels() * images.channels();
  for (std::size_t at = 0; at < images.values(); at += most) {
    const std::span<float> values(piece.data(), std::min(most, images.values() - at));
    look_up(images, at, values);
    device.copy_in(images.storage, values, images.to.data() + at * value_bytes);
  }
  device.clear(images.to.subspan(images.values() * value_bytes));
}

}  // namespace

std::span<const float> mask_tables() {
  static const std::array<float, kByteValues> table = [] {
    std::array<float, kByteValues> values{};
    for (std::size_t byte = 0; byte < values.size(); ++byte)
      values[byte] = static_cast<float>(byte) / 255.0F;
    return values;
  }();
  return table;
}

void look_up(const InputImages& images, std::size_t first, std::span<float> values) {
  DDPRUN_ASSERT(first + values.size() <= images.values(), "values that images have");
  if (images.windows.empty()) {
    look_up_whole(images.pixels.subspan(first, values.size()), images.tables, values);
  } else {
    look_up_windows(images, first, values);
  }
}

void copy_inputs(Device& device, const Inputs& inputs) {
  for (const InputValues& one : inputs.values) {
    DDPRUN_ASSERT(one.stored.rows.empty(), "samples of the host's memory");
    device.copy_in(one.from, one.to.data());
    device.clear(one.to.subspan(one.from.size()));
  }
  copy_images(device, inputs.images);
  copy_images(device, inputs.masks);
}

}  // namespace ddprun::trainer
