// JPEG files that cost time and have no use.
#include <cstdio>
// Needs FILE and size_t before it.
#include <jpeglib.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <vector>

#include "trainer/data/decode_image.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Catch::Matchers::Contains;

/// Grey, 16x16 pixels, in two scans: the means of its blocks, and all else.
Bytes two_scans() {
  std::array<jpeg_scan_info, 2> scans{};
  scans[0] = {.comps_in_scan = 1, .component_index = {0}, .Ss = 0, .Se = 0, .Ah = 0, .Al = 0};
  scans[1] = {.comps_in_scan = 1, .component_index = {0}, .Ss = 1, .Se = 63, .Ah = 0, .Al = 0};
  jpeg_error_mgr errors{};
  jpeg_compress_struct info{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = info.image_height = 16;
  info.input_components = 1;
  info.in_color_space = JCS_GRAYSCALE;
  jpeg_set_defaults(&info);
  info.scan_info = scans.data();
  info.num_scans = 2;
  jpeg_start_compress(&info, TRUE);
  for (int row = 0; row < 16; ++row) {
    std::array<JSAMPLE, 16> pixels{};
    for (int i = 0; i < 16; ++i)
      pixels[static_cast<std::size_t>(i)] = static_cast<JSAMPLE>(row * 9 + i * 5);
    JSAMPROW line = pixels.data();
    jpeg_write_scanlines(&info, &line, 1);
  }
  jpeg_finish_compress(&info);
  Bytes bytes(memory, memory + size);
  jpeg_destroy_compress(&info);
  std::free(memory);
  return bytes;
}

/// Where the marker FF `code` is; codes of restarts and of the byte FF itself do not occur.
Bytes::iterator find_marker(Bytes::iterator from, Bytes::iterator end, std::uint8_t code) {
  const std::array<std::uint8_t, 2> marker{0xff, code};
  return std::search(from, end, marker.begin(), marker.end());
}

/// With the first scan so many times.
Bytes with_scans(int count) {
  constexpr std::uint8_t kScan = 0xda, kTables = 0xc4;
  Bytes bytes = two_scans();
  const auto begin = find_marker(bytes.begin(), bytes.end(), kScan);
  const auto end = find_marker(begin, bytes.end(), kTables);  // of the second scan
  REQUIRE(begin != bytes.end());
  REQUIRE(end != bytes.end());
  const Bytes scan(begin, end);
  Bytes all(bytes.begin(), begin);
  for (int i = 0; i < count - 1; ++i) all.insert(all.end(), scan.begin(), scan.end());
  all.insert(all.end(), end, bytes.end());
  return all;
}

TEST_CASE("a JPEG of 500 scans is read, and one of more is refused") {
  const ByteImage image = decode_image(two_scans(), 1, "two.jpg");
  CHECK(decode_image(with_scans(500), 1, "many.jpg").pixels == image.pixels);
  CHECK_THROWS_WITH(decode_image(with_scans(501), 1, "many.jpg"),
                    Contains("many.jpg: damaged JPEG (too many scans)"));
}

}  // namespace
}  // namespace ddprun::trainer
