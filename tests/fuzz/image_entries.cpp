#include <zlib.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "base/assert.hpp"
#include "base/printable.hpp"
#include "tests/fuzz/entries.hpp"
#include "trainer/data/data_set.hpp"
#include "trainer/data/decode_image.hpp"
#include "trainer/data/resize.hpp"
#include "trainer/error.hpp"

namespace ddprun::test {
namespace {

/// Makes the checksum of each chunk right, so that what is in it is read.
void mend_checksums(std::string& png) {
  const auto number = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<std::uint8_t>(png[at + i]);
    return value;
  };
  for (std::size_t at = 8; at + 12 <= png.size();) {
    const std::size_t length = number(at);
    if (length > png.size() - at - 12) return;
    const auto* const chunk = reinterpret_cast<const Bytef*>(png.data() + at + 4);
    const auto sum = static_cast<std::uint32_t>(crc32(0, chunk, static_cast<uInt>(length + 4)));
    for (std::size_t i = 0; i < 4; ++i)
      png[at + 8 + length + i] = static_cast<char>(sum >> (24 - 8 * i));
    at += 12 + length;
  }
}

/// A file that begins with `start` in place of its own first bytes.
std::string file_with(std::string_view start, const std::uint8_t* data, std::size_t size) {
  std::string file(reinterpret_cast<const char*>(data), size);
  return file.replace(0, std::min(start.size(), size), start);
}

void decode_any(const std::string& file) {
  using namespace trainer;
  const std::span<const std::uint8_t> bytes(reinterpret_cast<const std::uint8_t*>(file.data()),
                                            file.size());
  const int channels = file.size() % 2 == 0 ? 1 : 3;
  try {
    const ByteImage image =
        file.size() % 4 == 0 ? decode_mask(bytes, "file") : decode_image(bytes, channels, "file");
    DDPRUN_ASSERT(image.shape.channels == channels, "the channels that were asked for");
    DDPRUN_ASSERT(image.pixels.size() == sample_size(image.shape), "all pixels of the image");
    DDPRUN_ASSERT(image.shape.height >= 1 && image.shape.height <= kImageSideMax &&
                      image.shape.width >= 1 && image.shape.width <= kImageSideMax,
                  "sides within the limits");
    DDPRUN_ASSERT(
        resize_bilinear(image, 3, 5).pixels.size() == static_cast<std::size_t>(15 * channels),
        "any image can be made small");
  } catch (const DataError& error) {
    const std::string text = error.what();
    DDPRUN_ASSERT(text.starts_with("file: ") && printable(text) == text, "an error is a line");
  }
}

}  // namespace

void fuzz_jpeg(const std::uint8_t* data, std::size_t size) {
  decode_any(file_with("\xff\xd8", data, size));
}

void fuzz_png(const std::uint8_t* data, std::size_t size) {
  std::string file = file_with("\x89PNG", data, size);
  mend_checksums(file);
  decode_any(file);
}

}  // namespace ddprun::test
