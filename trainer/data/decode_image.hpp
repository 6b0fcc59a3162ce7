// Bytes of a JPEG or PNG file to pixels. Whatever the bytes are, they become an image or a
// DataError.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/model/graph.hpp"

namespace ddprun::trainer {

/// height x width x channels bytes.
struct ByteImage {
  ImageShape shape;
  std::vector<std::uint8_t> pixels;
  /// The most that was held at one time to decode it, with these pixels and those of the file; 0:
  /// it was not decoded.
  std::uint64_t decode_bytes = 0;
};

/// Larger images are refused before anything is allocated for them.
inline constexpr int kImageSideMax = 16'384;
inline constexpr std::uint64_t kImagePixelsMax = std::uint64_t{1} << 26;

/// Decodes a file of JPEG or PNG, told apart by its first bytes, to 1 (grey) or 3 (red, green,
/// blue) channels of 8 bits: palettes are looked up, 16 bits become 8, alpha is left out, CMYK
/// becomes RGB, and an image is turned as its EXIF data says. Throws DataError that begins with
/// `name`: another format, damaged, cut short, too large. Pure.
ByteImage decode_image(std::span<const std::uint8_t> bytes, int channels, const std::string& name);

/// As decode_image() to grey, but for a PNG with a palette that is not all grey, as tools for
/// labels save masks: there the index is the label, and the colours are for people. Index 0 and 255
/// (what belongs to no class, as the border of an object in Pascal VOC) become 0, others 255.
ByteImage decode_mask(std::span<const std::uint8_t> bytes, const std::string& name);

/// Grey from red, green and blue by the weights 0.299, 0.587, 0.114 (Pillow's "L"), or grey three
/// times. `image` has 1 or 3 channels.
ByteImage with_channels(ByteImage image, int channels);

/// Turned and mirrored so that an image with this EXIF orientation (1 to 8) is upright.
ByteImage upright(ByteImage image, int orientation);

/// The orientation in EXIF data, a TIFF structure; 1 if it has none. Bytes of a JPEG's segment
/// (without its marker and length) or of a PNG's chunk: with the prefix "Exif" or without.
int exif_orientation(std::span<const std::uint8_t> exif);

// The two decoders behind decode_image(), for its source files alone.

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
