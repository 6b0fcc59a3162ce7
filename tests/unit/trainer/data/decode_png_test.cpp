// PNG files with chunks beside the pixels: none of them takes memory or changes the pixels, but for
// the orientation of EXIF.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "trainer/data/data_set.hpp"
#include "trainer/data/decode_image.hpp"
#include "trainer/data/read_file.hpp"

namespace ddprun::trainer {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes png_file(const std::string& name) {
  return read_file_or_gzip(std::string(DDPRUN_CORPORA) + "/png/" + name);
}

void append(Bytes& bytes, const Bytes& more) {
  // Not insert(): g++ 12 warns of bounds there without a reason.
  std::copy(more.begin(), more.end(), std::back_inserter(bytes));
}

Bytes big_endian(std::uint32_t value) {
  return {static_cast<std::uint8_t>(value >> 24), static_cast<std::uint8_t>(value >> 16),
          static_cast<std::uint8_t>(value >> 8), static_cast<std::uint8_t>(value)};
}

Bytes chunk(const std::string& kind, const Bytes& data) {
  Bytes checked(kind.begin(), kind.end());
  append(checked, data);
  Bytes bytes = big_endian(static_cast<std::uint32_t>(data.size()));
  append(bytes, checked);
  append(bytes, big_endian(static_cast<std::uint32_t>(
                    crc32(0, checked.data(), static_cast<uInt>(checked.size())))));
  return bytes;
}

/// png/colour with `chunks` behind its header, or before its end.
Bytes with_chunks(const Bytes& chunks, bool at_end = false) {
  constexpr std::size_t kHeaderEnd = 33, kEndChunk = 12;
  Bytes bytes = png_file("colour");
  const std::size_t place = at_end ? bytes.size() - kEndChunk : kHeaderEnd;
  bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(place), chunks.begin(), chunks.end());
  return bytes;
}

/// A text of so many equal letters.
Bytes compressed_text(std::size_t letters) {
  const Bytes text(letters, 'a');
  uLongf size = compressBound(letters);
  Bytes packed(size);
  REQUIRE(compress(packed.data(), &size, text.data(), letters) == Z_OK);
  packed.resize(size);
  Bytes data{'k', 0, 0};
  append(data, packed);
  return chunk("zTXt", data);
}

Bytes exif(std::uint8_t orientation) {
  return {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, orientation, 0, 0};
}

/// By how many bytes a child's memory grows while it does this; -1: that is not known.
long grown_bytes(const std::function<void()>& work) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const auto most = [] {
      rusage used{};
      getrusage(RUSAGE_SELF, &used);
      return used.ru_maxrss * 1024;
    };
    const long before = most();
    work();
    const long grown = most() - before;
    _exit(write(ends[1], &grown, sizeof(grown)) == sizeof(grown) ? 0 : 1);
  }
  close(ends[1]);
  long grown = -1;
  if (read(ends[0], &grown, sizeof(grown)) != sizeof(grown)) grown = -1;
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return grown;
}

/// A row of pixels with these indices, so many bits each, of a palette.
Bytes palette_row(const Bytes& indices, std::uint8_t bits, const Bytes& palette) {
  Bytes bytes{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  Bytes header = big_endian(static_cast<std::uint32_t>(indices.size()));
  append(header, big_endian(1));
  append(header, {bits, 3, 0, 0, 0});
  Bytes row((indices.size() * bits + 7) / 8 + 1);  // behind the filter's byte
  for (std::size_t i = 0; i < indices.size(); ++i)
    row[1 + i * bits / 8] =
        static_cast<std::uint8_t>(row[1 + i * bits / 8] | indices[i] << (8 - bits - i * bits % 8));
  uLongf size = compressBound(row.size());
  Bytes packed(size);
  REQUIRE(compress(packed.data(), &size, row.data(), row.size()) == Z_OK);
  packed.resize(size);
  append(bytes, chunk("IHDR", header));
  append(bytes, chunk("PLTE", palette));
  append(bytes, chunk("IDAT", packed));
  append(bytes, chunk("IEND", {}));
  return bytes;
}

TEST_CASE("in a mask with a palette of colours the index counts, not the brightness") {
  // Black, dark red, and the light colour of a border.
  const Bytes three{0, 0, 0, 128, 0, 0, 224, 224, 192};
  for (const std::uint8_t bits : Bytes{2, 4, 8}) {
    INFO(int{bits});
    const Bytes file = palette_row({0, 1, 2, 0, 1}, bits, three);
    const ByteImage mask = decode_mask(file, "");
    CHECK(mask.shape.channels == 1);
    CHECK(mask.pixels == Bytes{0, 255, 255, 0, 255});
    CHECK(decode_image(file, 1, "").pixels == Bytes{0, 38, 220, 0, 38});
  }
  // Index 255 is no class.
  Bytes all(3 * 256);
  all[3] = 128;
  CHECK(decode_mask(palette_row({0, 1, 255, 254}, 8, all), "").pixels == Bytes{0, 255, 0, 255});
}

TEST_CASE("a mask with a palette of greys, or with none, has the brightness of its pixels") {
  const Bytes white_first{255, 255, 255, 0, 0, 0};
  CHECK(decode_mask(palette_row({0, 1, 0}, 1, white_first), "").pixels == Bytes{255, 0, 255});
  for (const char* const name : {"grey", "one_bit", "colour", "alpha"})
    CHECK(decode_mask(png_file(name), name).pixels == decode_image(png_file(name), 1, "").pixels);
}

TEST_CASE("texts of a PNG are not unpacked") {
  constexpr std::size_t kLetters = 7'000'000, kTexts = 16;
  Bytes texts;
  for (std::size_t i = 0; i < kTexts; ++i) append(texts, compressed_text(kLetters));
  const Bytes bytes = with_chunks(texts);
  CHECK(bytes.size() < 200'000);
  // Memory that a child takes is seen.
  const auto take = [] {
    const Bytes held(kTexts * kLetters, 1);
    [[maybe_unused]] const volatile std::uint8_t* volatile place = held.data();
  };
  CHECK(grown_bytes(take) > long{kTexts * kLetters} / 2);
  const long grown = grown_bytes([&] { decode_image(bytes, 3, "a.png"); });
  CHECK(grown >= 0);
  CHECK(grown < 16'000'000);
  CHECK(decode_image(bytes, 3, "").pixels == decode_image(png_file("colour"), 3, "").pixels);
}

TEST_CASE("texts and colour profiles leave the pixels as they are") {
  const Bytes pixels = decode_image(png_file("colour"), 3, "").pixels;
  for (const char* name : {"ztxt", "itxt", "iccp"}) {
    INFO(name);
    CHECK(decode_image(png_file(name), 3, name).pixels == pixels);
  }
  CHECK(decode_image(with_chunks(chunk("tEXt", Bytes(9'000'000, 'a'))), 3, "").pixels == pixels);
  // A profile that libpng would not take.
  CHECK(decode_image(with_chunks(chunk("iCCP", {1, 2, 3})), 3, "").pixels == pixels);
}

TEST_CASE("a PNG is turned as its EXIF orientation says, wherever that stands") {
  const ByteImage image = decode_image(png_file("colour"), 3, "");
  for (const bool at_end : {false, true}) {
    for (std::uint8_t orientation = 0; orientation <= 9; ++orientation) {
      INFO(int{orientation} << (at_end ? " at the end" : ""));
      const ByteImage turned =
          decode_image(with_chunks(chunk("eXIf", exif(orientation)), at_end), 3, "");
      const ByteImage expected = upright(image, orientation);
      CHECK(to_string(turned.shape) == to_string(expected.shape));
      CHECK(turned.pixels == expected.pixels);
    }
  }
}

TEST_CASE("a PNG is turned by an intact chunk of EXIF alone") {
  const Bytes pixels = decode_image(png_file("colour"), 3, "").pixels;
  Bytes damaged = chunk("eXIf", exif(6));
  damaged.back() ^= 1;  // its checksum
  CHECK(decode_image(with_chunks(damaged), 3, "").pixels == pixels);
  CHECK(decode_image(with_chunks(chunk("eXIf", {})), 3, "").pixels == pixels);
  CHECK(decode_image(with_chunks(chunk("teXt", exif(6))), 3, "").pixels == pixels);
  Bytes with_prefix{'E', 'x', 'i', 'f', 0, 0};  // of JPEG; some programs write it here, too
  append(with_prefix, exif(6));
  CHECK(decode_image(with_chunks(chunk("eXIf", with_prefix)), 3, "").shape.height == 28);
}

}  // namespace
}  // namespace ddprun::trainer
