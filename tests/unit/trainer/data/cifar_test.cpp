// CIFAR-10's binary files: planes become pixels, and damage is named with its record.
#include "trainer/data/cifar.hpp"

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/support/temp_dir.hpp"
#include "trainer/data/load.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;
using Bytes = std::vector<std::uint8_t>;

/// Red counts up, green is 100 and blue 200 everywhere.
Bytes record(std::uint8_t label) {
  Bytes bytes(kCifarRecord, label);
  for (std::size_t i = 0; i < kCifarPlane; ++i) {
    bytes[1 + i] = static_cast<std::uint8_t>(i % 256);
    bytes[1 + kCifarPlane + i] = 100;
    bytes[1 + 2 * kCifarPlane + i] = 200;
  }
  return bytes;
}

Bytes records(const Bytes& labels) {
  Bytes all;
  for (const std::uint8_t label : labels) {
    const Bytes one = record(label);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

void write_cifar(const std::filesystem::path& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

/// Two records in each file.
void write_set(const std::filesystem::path& folder) {
  for (std::uint8_t i = 1; i <= 5; ++i) {
    write_cifar(folder / ("data_batch_" + std::to_string(i) + ".bin"),
                records({i, static_cast<std::uint8_t>(9 - i)}));
  }
  write_cifar(folder / "test_batch.bin", records({3, 9}));
}

TEST_CASE("records become pixels with their channels side by side") {
  ByteImages images;
  append_cifar(records({7, 0}), "x", images);
  CHECK(images.labels == std::vector<ImageLabel>{7, 0});
  REQUIRE(images.pixels.size() == 2 * 3 * kCifarPlane);
  CHECK(Bytes(images.pixels.begin() + 3, images.pixels.begin() + 9) ==
        Bytes{1, 100, 200, 2, 100, 200});
  CHECK(images.pixels[3 * kCifarPlane + 3 * 33] == 33);  // second image, row 1, column 1
}

TEST_CASE("a file that is cut short or no file of CIFAR-10 is named with its record") {
  ByteImages images;
  Bytes bytes = records({7, 0});
  bytes.resize(bytes.size() - 1);
  CHECK_THROWS_WITH(append_cifar(bytes, "b.bin", images),
                    Contains("b.bin: record 1 is cut short: it has 3072 of 3073 bytes"));
  CHECK_THROWS_WITH(append_cifar(records({7, 9, 10}), "b.bin", images),
                    Contains("b.bin: record 2 has the label 10, but") && Contains("0 to 9"));
  CHECK_THROWS_WITH(append_cifar({}, "b.bin", images), Contains("b.bin: the file is empty"));
}

TEST_CASE("the six files become a pair of sets, in the order of their numbers") {
  const test::TempDir directory;
  const auto inside = GENERATE(false, true);
  const std::filesystem::path folder =
      inside ? directory / "cifar-10-batches-bin" : directory.path();
  std::filesystem::create_directories(folder);
  write_set(folder);
  const DataRequest request{.data = directory.path().string()};
  const TrainAndTest sets = load_data(request);
  CHECK(sets.train->size() == 10);
  CHECK(sets.test->size() == 2);
  CHECK(sets.train->classes() == 10);
  CHECK(to_string(sets.train->images()->shape()) == "32x32x3");
  CHECK(sets.train->images()->normalization().mean.at(1) == Approx(100.0 / 255));
  std::vector<std::uint8_t> pixels(3 * kCifarPlane);
  CHECK(sets.train->images()->read(0, pixels) == 1);
  CHECK(sets.train->images()->read(9, pixels) == 4);
  CHECK(sets.test->images()->read(1, pixels) == 9);
  CHECK(known_data_bytes(request) == sets.train->bytes() + sets.test->bytes());
}

TEST_CASE("the images become as large as is asked for") {
  const test::TempDir directory;
  write_set(directory.path());
  const DataRequest request{.data = directory.path().string(),
                            .other_shape = ImageShape{.height = 64, .width = 70, .channels = 1}};
  const TrainAndTest sets = load_data(request);
  CHECK(to_string(sets.test->images()->shape()) == "64x70x1");
  CHECK(sets.train->size() == 10);
  CHECK(known_data_bytes(request) == sets.train->bytes() + sets.test->bytes());
}

TEST_CASE("a missing or damaged file of the six is named") {
  const test::TempDir directory;
  write_set(directory.path());
  const auto load = [&] { load_data({.data = directory.path().string()}); };
  SECTION("missing") {
    std::filesystem::remove(directory / "data_batch_3.bin");
    CHECK_THROWS_WITH(load(), Contains(directory.path().string() + ": no data_batch_3.bin there"));
  }
  SECTION("cut short") {
    std::filesystem::resize_file(directory / "test_batch.bin", 3100);
    CHECK_THROWS_WITH(load(), Contains("test_batch.bin: record 1 is cut short"));
  }
}

}  // namespace
}  // namespace ddprun::trainer
