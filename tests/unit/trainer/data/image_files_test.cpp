// Image files of a folder: listed by name, decoded by any number of threads to the same samples.
#include "trainer/data/image_files.hpp"

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/support/temp_dir.hpp"
#include "trainer/data/decode_image.hpp"
#include "trainer/data/image_scan.hpp"
#include "trainer/data/read_file.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Catch::Matchers::Contains;

/// An image of 20 rows of 28 pixels.
std::filesystem::path sample(const std::string& name) {
  return std::filesystem::path(DDPRUN_CORPORA) / name;
}

constexpr ImageShape kOwn{.height = 20, .width = 28, .channels = 3};

ByteImages read_all(const std::vector<ImageFile>& files, const ImageSettings& settings) {
  return scan_image_files(files, settings, true).images;
}

TEST_CASE("names of images are sorted, and other files are left out") {
  const test::TempDir directory;
  for (const char* name : {"b.PNG", "a.jpg", "c.jpeg", "a.txt", ".hidden.png", "png", "d.gif"})
    std::ofstream(directory / name) << "x";
  CHECK(image_names(directory.path()) == std::vector<std::string>{"a.jpg", "b.PNG", "c.jpeg"});
  CHECK_THROWS_WITH(image_names("/nonexistent"), Contains("/nonexistent: No such file"));
}

TEST_CASE("samples have the order of the list, whatever the number of threads") {
  std::vector<ImageFile> files;
  for (int i = 0; i < 30; ++i)
    files.push_back({.image = sample(i % 3 == 0   ? "png/colour"
                                     : i % 3 == 1 ? "jpeg/grey"
                                                  : "png/palette")});
  const ByteImages one = read_all(files, {.shape = kOwn, .threads = 1});
  REQUIRE(one.pixels.size() == 30 * 20 * 28 * 3);
  CHECK(one.masks.empty());
  const Bytes second = decode_image(read_file_or_gzip(sample("jpeg/grey")), 3, "").pixels;
  CHECK(std::equal(second.begin(), second.end(), one.pixels.begin() + 20 * 28 * 3));
  for (const int threads : {2, 7, 64})
    CHECK(read_all(files, {.shape = kOwn, .threads = threads}).pixels == one.pixels);
}

TEST_CASE("of several files that cannot be used the first one is named") {
  const test::TempDir directory;
  std::ofstream(directory / "bad.jpg") << "no image";
  std::ofstream(directory / "worse.jpg") << "no image";
  std::vector<ImageFile> files(40, {.image = sample("png/colour")});
  files[17].image = directory / "bad.jpg";
  for (std::size_t i = 18; i < 40; ++i) files[i].image = directory / "worse.jpg";
  for (int turn = 0; turn < 20; ++turn) {
    CHECK_THROWS_WITH(read_all(files, {.shape = kOwn, .threads = 4}),
                      Contains("bad.jpg: neither JPEG nor PNG"));
  }
}

TEST_CASE("masks are resized like their images, and are 0 or 255 by the threshold") {
  // Grey from 33 to 217.
  const std::vector<ImageFile> files{{.image = sample("png/colour"), .mask = sample("png/grey")}};
  const Bytes grey = decode_image(read_file_or_gzip(sample("png/grey")), 1, "").pixels;
  const auto check = [&](const ImageSettings& settings, int threshold) {
    const ByteImages images = read_all(files, settings);
    REQUIRE(images.masks.size() == grey.size());
    for (std::size_t i = 0; i < grey.size(); ++i) {
      if (images.masks[i] != (grey[i] >= threshold ? 255 : 0)) FAIL("pixel " << i);
    }
  };
  check({.shape = kOwn}, 128);
  check({.shape = kOwn, .mask_threshold = 180}, 180);
  const ByteImages small = read_all(files, {.shape = {.height = 5, .width = 7, .channels = 1}});
  CHECK(small.pixels.size() == 35);
  REQUIRE(small.masks.size() == 35);
  CHECK(small.masks[8] == (grey[4 * 28 + 4] >= 128 ? 255 : 0));
}

TEST_CASE("a mask of other sides than its image is refused") {
  const std::vector<ImageFile> files{{.image = sample("jpeg/turned"), .mask = sample("png/grey")}};
  CHECK_THROWS_WITH(read_all(files, {.shape = kOwn}),
                    Contains("png/grey: a mask of 20x28 pixels, but its image ") &&
                        Contains("jpeg/turned has 28x20"));
}

}  // namespace
}  // namespace ddprun::trainer
