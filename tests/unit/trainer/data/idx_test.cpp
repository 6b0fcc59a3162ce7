// IDX files: what is read, and how each kind of damage is reported.
#include "trainer/data/idx.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <random>

#include "tests/support/temp_dir.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Catch::Matchers::Contains;

/// An IDX file of unsigned bytes: the elements count up from 0.
Bytes idx(const std::vector<std::uint32_t>& dimensions) {
  Bytes bytes{0, 0, 0x08, static_cast<std::uint8_t>(dimensions.size())};
  std::size_t elements = 1;
  for (const std::uint32_t dimension : dimensions) {
    for (const int shift : {24, 16, 8, 0}) {
      bytes.push_back(static_cast<std::uint8_t>(dimension >> shift));
    }
    elements *= dimension;
  }
  for (std::size_t i = 0; i < elements; ++i) bytes.push_back(static_cast<std::uint8_t>(i % 10));
  return bytes;
}

void write(const std::filesystem::path& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

TEST_CASE("a header gives its dimensions and where the elements start") {
  const Bytes bytes = idx({2, 3, 4});
  const IdxHeader header = parse_idx(bytes, "x");
  CHECK(header.dimensions == std::vector<std::uint32_t>{2, 3, 4});
  CHECK(header.payload_offset == 16);
}

TEST_CASE("every cut of a file is reported with its name and offset") {
  const Bytes whole = idx({2, 3, 4});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CHECK_THROWS_WITH(parse_idx(std::span(whole).first(size), "cut.idx"),
                      Contains(fmt::format("cut.idx: offset {}: cut short", size)));
  }
}

TEST_CASE("bytes beyond the promised ones are reported") {
  Bytes bytes = idx({2});
  bytes.push_back(1);
  CHECK_THROWS_WITH(parse_idx(bytes, "x"), Contains("offset 10: 1 bytes more"));
}

TEST_CASE("a wrong magic, type or number of dimensions is named") {
  Bytes bytes = idx({2, 2, 2});
  SECTION("magic") {
    bytes[0] = 0x1f;
    CHECK_THROWS_WITH(parse_idx(bytes, "x"), Contains("x: offset 0: magic 1f000803"));
  }
  SECTION("type") {
    bytes[2] = 0x0d;
    CHECK_THROWS_WITH(parse_idx(bytes, "x"), Contains("offset 2: element type 0x0d"));
  }
  SECTION("no dimension") {
    bytes[3] = 0;
    CHECK_THROWS_WITH(parse_idx(bytes, "x"), Contains("offset 3: 0 dimensions"));
  }
  SECTION("too many") {
    bytes[3] = 5;
    CHECK_THROWS_WITH(parse_idx(bytes, "x"), Contains("offset 3: 5 dimensions"));
  }
}

TEST_CASE("dimensions that no picture has are refused before anything is allocated") {
  for (const std::size_t dimension : {0U, 1U, 2U}) {
    Bytes bytes = idx({2, 2, 2});
    for (std::size_t i = 0; i < 4; ++i) bytes[4 + 4 * dimension + i] = 0xff;
    CHECK_THROWS_WITH(parse_idx(bytes, "x"),
                      Contains(fmt::format("offset {}: dimension {} is 4294967295",
                                           4 + 4 * dimension, dimension)));
  }
  Bytes empty = idx({2});
  empty[7] = 0;
  CHECK_THROWS_WITH(parse_idx(empty, "x"), Contains("dimension 0 is 0"));
}

TEST_CASE("elements over the limit are refused") {
  Bytes bytes{0, 0, 8, 3, 0x05, 0xf5, 0xe1, 0x00, 0, 0, 0x10, 0, 0, 0, 0x10, 0};
  CHECK_THROWS_WITH(parse_idx(bytes, "x"), Contains("bytes of elements"));
}

TEST_CASE("a file with any bytes changed is read or refused, nothing else") {
  std::mt19937 random(7);
  for (int turn = 0; turn < 2000; ++turn) {
    Bytes bytes = idx({2, 3, 4});
    for (unsigned change = 0; change < 1 + random() % 4; ++change) {
      bytes[random() % bytes.size()] = static_cast<std::uint8_t>(random());
    }
    bytes.resize(random() % 8 == 0 ? random() % bytes.size() : bytes.size());
    std::size_t offset = 0;  // CHECK would catch the refusal itself
    try {
      offset = parse_idx(bytes, "x").payload_offset;
    } catch (const DataError&) {
      continue;
    }
    CHECK(offset <= bytes.size());
  }
}

TEST_CASE("a pair gives pixels, labels, shape and the number of classes") {
  const test::TempDir directory;
  write(directory / "images", idx({4, 2, 3}));
  write(directory / "labels", idx({4}));
  const ByteImages images =
      read_idx_pair(directory / "images", directory / "labels", Target::label);
  CHECK(images.labels == std::vector<ImageLabel>{0, 1, 2, 3});
  CHECK(images.pixels.size() == 24);
  CHECK(images.pixels[11] == 1);
  CHECK(images.shape.height == 2);
  CHECK(images.shape.width == 3);
  CHECK(images.shape.channels == 1);
  CHECK(images.classes == 4);
}

TEST_CASE("images may carry channels") {
  const test::TempDir directory;
  write(directory / "images", idx({4, 2, 3, 3}));
  write(directory / "labels", idx({4}));
  CHECK(read_idx_pair(directory / "images", directory / "labels", Target::label).shape.channels ==
        3);
  write(directory / "two", idx({4, 2, 3, 2}));
  CHECK_THROWS_WITH(read_idx_pair(directory / "two", directory / "labels", Target::label),
                    Contains("two: offset 16: 2 channels"));
}

TEST_CASE("counts of images and labels must agree") {
  const test::TempDir directory;
  write(directory / "images", idx({4, 2, 3}));
  write(directory / "labels", idx({5}));
  CHECK_THROWS_WITH(read_idx_pair(directory / "images", directory / "labels", Target::label),
                    Contains("holds 4 images") && Contains("holds 5 labels"));
}

TEST_CASE("masks have the count and the sides of their images") {
  const test::TempDir directory;
  write(directory / "images", idx({4, 2, 3, 3}));
  write(directory / "masks", idx({4, 2, 3}));
  const auto read = [&](const char* masks) {
    return read_idx_pair(directory / "images", directory / masks, Target::mask);
  };
  const ByteImages images = read("masks");
  CHECK(images.masks.size() == 24);
  CHECK(images.masks[11] == 1);
  CHECK(images.labels.empty());
  CHECK(images.classes == 1);
  write(directory / "other", idx({4, 3, 2}));
  CHECK_THROWS_WITH(read("other"), Contains("images holds images, 4 of 2x3, but ") &&
                                       Contains("other holds masks, 4 of 3x2"));
  write(directory / "labels", idx({4}));
  CHECK_THROWS_WITH(read("labels"), Contains("1 dimensions, but masks have 3"));
}

TEST_CASE("labels in the place of images are refused") {
  const test::TempDir directory;
  write(directory / "labels", idx({4}));
  CHECK_THROWS_WITH(read_idx_pair(directory / "labels", directory / "labels", Target::label),
                    Contains("labels: offset 3: 1 dimensions, but images have 3"));
}

}  // namespace
}  // namespace ddprun::trainer
