// Images of 8 bits in another size. Pure; the same bytes on every machine.
#pragma once

#include <cstdint>
#include <span>

#include "trainer/data/byte_images.hpp"
#include "trainer/data/decode_image.hpp"

namespace ddprun::trainer {

/// Bilinear, and antialiased where it shrinks: a side is filtered by a triangle that is as wide as
/// two of the larger pixels. Columns first, then rows, each rounded to bytes: the bytes of Pillow's
/// resize(BILINEAR) where it has the same order, else within 1 of them, and of torch's
/// interpolate(mode="bilinear", antialias=True). Sides of 1 or more.
ByteImage resize_bilinear(ByteImage image, int height, int width);
/// The most that it holds at one time, both images included: while columns are resized, and then
/// while rows are.
std::uint64_t resizing_bytes(ImageShape from, int height, int width);

/// Each pixel is one of the image: torch's mode "nearest". For masks.
ByteImage resize_nearest(const ByteImage& image, int height, int width);

/// Image `index` in `shape`, and its mask, nearest. Both have exactly that many bytes; without
/// masks `mask` is empty.
void fit_image(const ByteImages& images, std::size_t index, ImageShape shape,
               std::span<std::uint8_t> pixels, std::span<std::uint8_t> mask);

}  // namespace ddprun::trainer
