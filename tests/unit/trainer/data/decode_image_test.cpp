// JPEG and PNG files become pixels as Pillow has them, and what is damaged becomes an error.
#include "trainer/data/decode_image.hpp"

#include <zlib.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>

#include "trainer/data/data_set.hpp"
#include "trainer/data/read_file.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

Bytes file_of(const std::string& name) {
  return read_file_or_gzip(std::string(DDPRUN_CORPORA) + "/" + name);
}

/// The pixel, grey ones three times.
std::array<int, 3> pixel_of(const ByteImage& image, int row, int column) {
  const auto channels = static_cast<std::size_t>(image.shape.channels);
  const auto pixel = static_cast<std::size_t>(row * image.shape.width + column);
  std::array<int, 3> values{};
  for (std::size_t c = 0; c < 3; ++c)
    values[c] = image.pixels.at(pixel * channels + std::min(c, channels - 1));
  return values;
}

int difference(const std::array<int, 3>& one, const std::array<int, 3>& other) {
  int most = 0;
  for (std::size_t c = 0; c < 3; ++c) most = std::max(most, std::abs(one[c] - other[c]));
  return most;
}

void put_big_endian(Bytes& bytes, std::size_t at, std::uint32_t value, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    bytes[at + i] = static_cast<std::uint8_t>(value >> (8 * (count - 1 - i)));
}

/// A PNG that claims these sides, its checksum right.
Bytes png_of_sides(std::uint32_t width, std::uint32_t height) {
  Bytes bytes = file_of("png/colour");
  put_big_endian(bytes, 16, width, 4);
  put_big_endian(bytes, 20, height, 4);
  put_big_endian(bytes, 29, static_cast<std::uint32_t>(crc32(0, bytes.data() + 12, 17)), 4);
  return bytes;
}

/// A JPEG that claims these sides.
Bytes jpeg_of_sides(std::uint32_t width, std::uint32_t height) {
  Bytes bytes = file_of("jpeg/colour");
  for (std::size_t i = 0; i + 9 < bytes.size(); ++i) {
    if (bytes[i] != 0xff || bytes[i + 1] != 0xc0) continue;
    put_big_endian(bytes, i + 5, height, 2);
    put_big_endian(bytes, i + 7, width, 2);
    return bytes;
  }
  FAIL("no frame in the file");
  return {};
}

TEST_CASE("every kind of JPEG and PNG has the pixels that Pillow gives it") {
  struct Case {
    const char* name;
    int height, width;
    std::array<std::array<int, 3>, 3> pixels;  // at (0, 0), (3, 17), (11, 5)
  };
  // Recorded from Pillow 13.0.
  const Case cases[] = {
      {"jpeg/cmyk", 20, 28, {{{40, 220, 60}, {159, 196, 122}, {75, 132, 118}}}},
      {"jpeg/cmyk_without_adobe", 20, 28, {{{40, 220, 60}, {159, 196, 122}, {75, 132, 118}}}},
      {"jpeg/ycck", 20, 28, {{{42, 219, 65}, {160, 196, 125}, {77, 132, 121}}}},
      {"jpeg/colour", 20, 28, {{{46, 216, 66}, {159, 197, 122}, {76, 132, 119}}}},
      {"jpeg/grey", 20, 28, {{{148, 148, 148}, {177, 177, 177}, {114, 114, 114}}}},
      {"jpeg/progressive", 20, 28, {{{46, 216, 66}, {159, 197, 122}, {76, 132, 119}}}},
      {"jpeg/turned", 28, 20, {{{39, 71, 130}, {60, 205, 76}, {116, 110, 148}}}},
      {"png/alpha", 20, 28, {{{40, 220, 60}, {159, 196, 123}, {75, 132, 119}}}},
      {"png/colour", 20, 28, {{{40, 220, 60}, {159, 196, 123}, {75, 132, 119}}}},
      {"png/grey", 20, 28, {{{148, 148, 148}, {177, 177, 177}, {113, 113, 113}}}},
      {"png/grey_alpha", 20, 28, {{{148, 148, 148}, {177, 177, 177}, {113, 113, 113}}}},
      {"png/interlaced", 20, 28, {{{40, 220, 60}, {159, 196, 123}, {75, 132, 119}}}},
      {"png/one_bit", 20, 28, {{{0, 0, 0}, {0, 0, 0}, {0, 0, 0}}}},
      {"png/palette", 20, 28, {{{58, 200, 78}, {152, 200, 118}, {58, 116, 120}}}},
      {"png/turned", 28, 20, {{{40, 68, 136}, {61, 204, 77}, {117, 108, 149}}}},
      {"png/turned_at_end", 28, 20, {{{229, 220, 141}, {208, 84, 200}, {152, 180, 128}}}},
      {"png/sixteen_bits", 20, 28, {{{0, 0, 0}, {136, 136, 136}, {52, 52, 52}}}},
  };
  for (const Case& one : cases) {
    INFO(one.name);
    const bool is_jpeg = std::string(one.name).starts_with("jpeg");
    const ByteImage colour = decode_image(file_of(one.name), 3, one.name);
    CHECK(to_string(colour.shape) == to_string({one.height, one.width, 3}));
    const std::array<std::array<int, 2>, 3> places{{{0, 0}, {3, 17}, {11, 5}}};
    for (std::size_t i = 0; i < 3; ++i) {
      const auto [row, column] = places[i];
      CHECK(difference(pixel_of(colour, row, column), one.pixels[i]) <= (is_jpeg ? 2 : 0));
    }
    const ByteImage grey = decode_image(file_of(one.name), 1, one.name);
    CHECK(to_string(grey.shape) == to_string({one.height, one.width, 1}));
    const auto& [red, green, blue] = one.pixels[1];
    const int luma = (red * 299 + green * 587 + blue * 114 + 500) / 1000;
    CHECK(std::abs(pixel_of(grey, 3, 17)[0] - luma) <= (is_jpeg ? 2 : 0));
  }
  CHECK(pixel_of(decode_image(file_of("png/one_bit"), 1, ""), 0, 1)[0] == 255);
  CHECK(decode_image(file_of("png/interlaced"), 3, "").pixels ==
        decode_image(file_of("png/colour"), 3, "").pixels);
}

TEST_CASE("what decoding holds is counted: the file, pixels and their copies, coefficients") {
  constexpr std::uint64_t kGrey = 20 * 28;
  const auto held = [](const char* name, int channels) {
    const Bytes bytes = file_of(name);
    return decode_image(bytes, channels, name).decode_bytes - bytes.size();
  };
  CHECK(held("jpeg/colour", 3) == 3 * kGrey);
  CHECK(held("jpeg/colour", 1) == (3 + 1) * kGrey);
  CHECK(held("jpeg/grey", 3) == (1 + 3) * kGrey);
  CHECK(held("jpeg/turned", 3) == 2 * 3 * kGrey);
  CHECK(held("jpeg/cmyk", 3) == (4 + 3) * kGrey);
  CHECK(held("png/turned", 3) == 2 * 3 * kGrey);
  CHECK(held("png/palette", 3) == 3 * kGrey);
  // 3 rows of 4 blocks, of 64 coefficients of two bytes.
  CHECK(held("jpeg/grey_progressive", 1) == kGrey + 3 * 4 * 64 * 2);
}

TEST_CASE("a file that is cut short anywhere is refused with its name") {
  for (const char* name : {"jpeg/colour", "jpeg/progressive", "jpeg/cmyk", "png/colour",
                           "png/interlaced", "png/palette"}) {
    const Bytes whole = file_of(name);
    // A PNG's last chunk, of 12 bytes, holds nothing.
    const std::size_t needed = whole.size() - (std::string(name).starts_with("png") ? 12 : 2);
    for (std::size_t size = 0; size < needed; ++size) {
      INFO(name << " " << size);
      CHECK_THROWS_WITH(decode_image(std::span(whole).first(size), 3, "a.jpg"),
                        StartsWith("a.jpg: "));
    }
  }
}

TEST_CASE("sides beyond the limits, or beyond what the file can hold, are refused") {
  const auto refused = [](const Bytes& bytes) { decode_image(bytes, 3, "a"); };
  CHECK_THROWS_WITH(refused(jpeg_of_sides(65'000, 28)),
                    Contains("a: 28x65000 pixels: sides of at most 16384"));
  CHECK_THROWS_WITH(refused(png_of_sides(100'000, 28)),
                    Contains("a: 28x100000 pixels: sides of at most"));
  CHECK_THROWS_WITH(refused(png_of_sides(16'000, 16'000)), Contains("67108864 pixels in all"));
  CHECK_THROWS_WITH(refused(jpeg_of_sides(8000, 8000)),
                    Contains("a: cut short: 781 bytes for 8000x8000"));
  CHECK_THROWS_WITH(refused(png_of_sides(8000, 8000)),
                    Contains("a: cut short: 97 bytes for 8000x8000"));
}

TEST_CASE("other files are refused") {
  const auto refused = [](const std::string& text) {
    decode_image(Bytes(text.begin(), text.end()), 3, "a.jpg");
  };
  CHECK_THROWS_WITH(refused(""), Contains("a.jpg: the file is empty"));
  CHECK_THROWS_WITH(refused("GIF89a"), Contains("a.jpg: neither JPEG nor PNG"));
}

TEST_CASE("an image is turned upright from each orientation of EXIF") {
  // 2 rows: 1 2 3 / 4 5 6.
  const ByteImage image{.shape = {.height = 2, .width = 3, .channels = 1},
                        .pixels = {1, 2, 3, 4, 5, 6}};
  const std::vector<std::pair<int, Bytes>> cases{
      {1, {1, 2, 3, 4, 5, 6}}, {2, {3, 2, 1, 6, 5, 4}}, {3, {6, 5, 4, 3, 2, 1}},
      {4, {4, 5, 6, 1, 2, 3}}, {5, {1, 4, 2, 5, 3, 6}}, {6, {4, 1, 5, 2, 6, 3}},
      {7, {6, 3, 5, 2, 4, 1}}, {8, {3, 6, 2, 5, 1, 4}}, {9, {1, 2, 3, 4, 5, 6}}};
  for (const auto& [orientation, pixels] : cases) {
    INFO(orientation);
    const ByteImage turned = upright(image, orientation);
    CHECK(turned.pixels == pixels);
    CHECK(turned.shape.height == (orientation >= 5 && orientation <= 8 ? 3 : 2));
  }
  const ByteImage colours{.shape = {.height = 1, .width = 2, .channels = 3},
                          .pixels = {1, 2, 3, 4, 5, 6}};
  CHECK(upright(colours, 2).pixels == Bytes{4, 5, 6, 1, 2, 3});
}

TEST_CASE("the orientation is read from either byte order, and from nothing else") {
  const Bytes little{'E',  'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0,
                     0x12, 1,   3,   0,   1, 0, 0,   0,   6,  0, 0, 0, 0, 0, 0, 0};
  const Bytes big{'E', 'x',  'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1,
                  1,   0x12, 0,   3,   0, 0, 0,   1,   0, 8,  0, 0, 0, 0, 0, 0};
  CHECK(exif_orientation(little) == 6);
  CHECK(exif_orientation(big) == 8);
  for (std::size_t size = 0; size < 24; ++size)
    CHECK(exif_orientation(std::span(little).first(size)) == 1);
  Bytes far = little;
  far[12] = 0xff;  // the directory's offset
  CHECK(exif_orientation(far) == 1);
}

}  // namespace
}  // namespace ddprun::trainer
