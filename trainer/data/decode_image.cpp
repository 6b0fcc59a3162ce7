#include "trainer/data/decode_image.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/assert.hpp"
#include "base/printable.hpp"
#include "trainer/data/data_set.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

constexpr std::array<std::uint8_t, 2> kJpegStart{0xff, 0xd8};
constexpr std::array<std::uint8_t, 4> kPngStart{0x89, 'P', 'N', 'G'};
constexpr std::uint16_t kOrientationTag = 0x0112;
constexpr std::size_t kExifEntryBytes = 12;

template <std::size_t count>
bool begins_with(std::span<const std::uint8_t> bytes,
                 const std::array<std::uint8_t, count>& start) {
  return bytes.size() >= count && std::equal(start.begin(), start.end(), bytes.begin());
}

ByteImage decode(std::span<const std::uint8_t> bytes, PaletteUse use) {
  if (bytes.empty()) throw DataError("the file is empty");
  if (begins_with(bytes, kJpegStart)) return decode_jpeg(bytes);
  if (begins_with(bytes, kPngStart)) return decode_png(bytes, use);
  throw DataError("neither JPEG nor PNG, judged by its first bytes: convert or remove the file");
}

/// Numbers of a TIFF structure; 0 beyond its end.
class TiffNumbers {
 public:
  TiffNumbers(std::span<const std::uint8_t> bytes, bool is_little)
      : bytes_(bytes), little_(is_little) {}
  [[nodiscard]] std::uint32_t at(std::size_t offset, std::size_t count) const {
    std::uint32_t value = 0;
    if (offset > bytes_.size() || bytes_.size() - offset < count) return 0;
    for (std::size_t i = 0; i < count; ++i)
      value = value << 8 | bytes_[offset + (little_ ? count - 1 - i : i)];
    return value;
  }

 private:
  std::span<const std::uint8_t> bytes_;
  bool little_;
};

}  // namespace

void check_image_size(std::uint64_t width, std::uint64_t height, std::uint64_t bytes,
                      std::uint64_t pixels_of_byte) {
  const std::uint64_t sides_max = kImageSideMax;
  if (width == 0 || height == 0) throw DataError("an image without pixels");
  if (width > sides_max || height > sides_max || width * height > kImagePixelsMax) {
    throw DataError(fmt::format(
        "{}x{} pixels: sides of at most {} and {} pixels in all are read: make it smaller", height,
        width, sides_max, kImagePixelsMax));
  }
  if (width * height / pixels_of_byte > bytes)
    throw DataError(fmt::format("cut short: {} bytes for {}x{} pixels", bytes, height, width));
}

namespace {

ByteImage decode_as(std::span<const std::uint8_t> bytes, PaletteUse use, int channels,
                    const std::string& name) {
  try {
    ByteImage image = decode(bytes, use);
    std::uint64_t most = image.decode_bytes;
    const std::uint64_t before = image.shape.channels == channels ? 0 : image.pixels.size();
    image = with_channels(std::move(image), channels);
    most = std::max(most, before + image.pixels.size());
    image.decode_bytes = bytes.size() + most;
    return image;
  } catch (const DataError& error) {
    throw DataError(name + ": " + printable(error.what()));
  }
}

}  // namespace

ByteImage decode_image(std::span<const std::uint8_t> bytes, int channels, const std::string& name) {
  return decode_as(bytes, PaletteUse::colours, channels, name);
}

ByteImage decode_mask(std::span<const std::uint8_t> bytes, const std::string& name) {
  return decode_as(bytes, PaletteUse::mask, 1, name);
}

ByteImage with_channels(ByteImage image, int channels) {
  DDPRUN_ASSERT(channels == 1 || channels == 3, "grey or colour");
  if (image.shape.channels == channels) return image;
  ByteImage result{.shape = image.shape, .pixels = {}};
  result.shape.channels = channels;
  result.pixels.resize(sample_size(result.shape));
  if (channels == 3) {
    for (std::size_t i = 0; i < image.pixels.size(); ++i)
      std::fill_n(result.pixels.data() + 3 * i, 3, image.pixels[i]);
    return result;
  }
  for (std::size_t i = 0; i < result.pixels.size(); ++i) {
    const std::uint8_t* const colour = image.pixels.data() + 3 * i;
    // 16 bits behind the point; the weights add up to 1.
    const std::uint32_t grey =
        colour[0] * 19595U + colour[1] * 38470U + colour[2] * 7471U + 0x8000U;
    result.pixels[i] = static_cast<std::uint8_t>(grey >> 16);
  }
  return result;
}

ByteImage upright(ByteImage image, int orientation) {
  if (orientation <= 1 || orientation > 8) return image;
  // EXIF: 2 mirrored, 3 by 180 degrees, 4 that mirrored; from 5 on rows are columns.
  const bool is_transposed = orientation >= 5;
  const bool flips_columns =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool flips_rows =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  ByteImage result{.shape = image.shape, .pixels = std::vector<std::uint8_t>(image.pixels.size())};
  if (is_transposed) std::swap(result.shape.height, result.shape.width);
  const auto channels = static_cast<std::size_t>(image.shape.channels);
  const auto columns = static_cast<std::size_t>(image.shape.width);
  std::uint8_t* out = result.pixels.data();
  for (int row = 0; row < result.shape.height; ++row) {
    for (int column = 0; column < result.shape.width; ++column) {
      int from_row = is_transposed ? column : row;
      int from_column = is_transposed ? row : column;
      if (flips_rows) from_row = image.shape.height - 1 - from_row;
      if (flips_columns) from_column = image.shape.width - 1 - from_column;
      const std::size_t pixel =
          static_cast<std::size_t>(from_row) * columns + static_cast<std::size_t>(from_column);
      out = std::copy_n(image.pixels.data() + pixel * channels, channels, out);
    }
  }
  return result;
}

ByteImage turned(ByteImage image, int orientation, std::uint64_t decoding) {
  const std::uint64_t pixels = image.pixels.size();
  const bool is_copied = orientation > 1 && orientation <= 8;
  image = upright(std::move(image), orientation);
  image.decode_bytes = std::max(decoding, is_copied ? 2 * pixels : pixels);
  return image;
}

int exif_orientation(std::span<const std::uint8_t> exif) {
  constexpr std::array<std::uint8_t, 6> kPrefix{'E', 'x', 'i', 'f', 0, 0};
  constexpr std::array<std::uint8_t, 4> kLittle{'I', 'I', 42, 0}, kBig{'M', 'M', 0, 42};
  const auto tiff = exif.subspan(begins_with(exif, kPrefix) ? kPrefix.size() : 0);
  if (!begins_with(tiff, kLittle) && !begins_with(tiff, kBig)) return 1;
  const TiffNumbers numbers(tiff, tiff[0] == 'I');
  const std::size_t directory = numbers.at(4, 4);
  const std::size_t entries = numbers.at(directory, 2);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + i * kExifEntryBytes;
    if (entry >= tiff.size()) break;
    if (numbers.at(entry, 2) != kOrientationTag) continue;
    const std::uint32_t value = numbers.at(entry + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace ddprun::trainer
