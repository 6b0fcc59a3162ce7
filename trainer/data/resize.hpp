// Images of 8 bits in another size. Pure; the same bytes on every machine.
#pragma once

#include <optional>

#include "trainer/data/byte_images.hpp"
#include "trainer/data/decode_image.hpp"

namespace ddprun::trainer {

/// Bilinear, and antialiased where it shrinks: a side is filtered by a triangle that is as wide as
/// two of the larger pixels. Columns first, then rows, each rounded to bytes: the bytes of Pillow's
/// resize(BILINEAR) where it has the same order, else within 1 of them, and of torch's
/// interpolate(mode="bilinear", antialias=True). Sides of 1 or more.
ByteImage resize_bilinear(ByteImage image, int height, int width);

/// Each pixel is one of the image: torch's mode "nearest". For masks.
ByteImage resize_nearest(const ByteImage& image, int height, int width);

/// Image `index` in `shape`, and its mask, nearest. Both have exactly that many bytes; without
/// masks `mask` is empty.
void fit_image(const ByteImages& images, std::size_t index, ImageShape shape,
               std::span<std::uint8_t> pixels, std::span<std::uint8_t> mask);

/// All images in `shape`, masks nearest; as they are if there is none.
ByteImages fit_images(ByteImages images, const std::optional<ImageShape>& shape);

}  // namespace ddprun::trainer
