// The two decoders behind decode_image(). For decode_image.cpp alone.
#pragma once

#include <cstdint>
#include <span>

#include "trainer/data/decode_image.hpp"

namespace ddprun::trainer {

/// What an image with a palette becomes.
enum class PaletteUse {
  colours,  ///< they are looked up
  mask,     ///< as decode_mask() has it
};

/// As the file has it: 1 or 3 channels. ByteImage::decode_bytes is without the file. Throws
/// DataError without its name.
ByteImage decode_jpeg(std::span<const std::uint8_t> bytes);
ByteImage decode_png(std::span<const std::uint8_t> bytes, PaletteUse use);

/// upright(), with the bytes of what was held: `decoding` until then.
ByteImage turned(ByteImage image, int orientation, std::uint64_t decoding);

/// Throws DataError where an image of these sides is too large, or larger than `bytes` bytes of a
/// file can be: `pixels_of_byte` is the most that one byte of this format describes.
void check_image_size(std::uint64_t width, std::uint64_t height, std::uint64_t bytes,
                      std::uint64_t pixels_of_byte);

}  // namespace ddprun::trainer
