// Image files of a folder: listed by name, decoded by any number of threads to the same samples.
#include "trainer/data/image_files.hpp"

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/support/temp_dir.hpp"
#include "trainer/data/decode_image.hpp"
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

using Catch::Matchers::Contains;

constexpr ImageShape kScanned{.height = 20, .width = 28, .channels = 3};

std::filesystem::path corpus_file(const std::string& name) {
  return std::filesystem::path(DDPRUN_CORPORA) / name;
}

/// Files of three kinds in turn, with labels.
std::vector<ImageFile> some_files(std::size_t count) {
  const std::vector<const char*> kinds{"png/colour", "jpeg/grey", "png/palette"};
  std::vector<ImageFile> files;
  for (std::size_t i = 0; i < count; ++i)
    files.push_back(
        {.image = corpus_file(kinds[i % 3]), .label = static_cast<std::uint8_t>(i % 4)});
  return files;
}

TEST_CASE("images that are not kept have the hash and the means of those that are") {
  for (const bool has_masks : {false, true}) {
    std::vector<ImageFile> files = some_files(13);
    if (has_masks)
      for (ImageFile& file : files) file.mask = corpus_file("png/grey");
    const ScannedImages kept = scan_image_files(files, {.shape = kScanned, .threads = 2}, true);
    const ByteImageSet set("kept", kept.images, measure_normalization(kept.images));
    REQUIRE(set.size() == 13);
    for (const int threads : {1, 3}) {
      const ScannedImages seen =
          scan_image_files(files, {.shape = kScanned, .threads = threads}, false);
      CHECK(seen.images.pixels.empty());
      CHECK(seen.images.masks.empty());
      CHECK(seen.content_hash == set.content_hash());
      CHECK(seen.sums.normalization().mean == set.normalization().mean);
      CHECK(seen.sums.normalization().deviation == set.normalization().deviation);
      CHECK(seen.hashes.size() == 13);
      CHECK(seen.marked_pixels == kept.marked_pixels);
      CHECK(seen.mask_pixels == (has_masks ? 13U * 20 * 28 : 0));
    }
  }
}

TEST_CASE("files that cannot be used are left out where that is asked for, the first ones named") {
  const test::TempDir directory;
  std::ofstream(directory / "text.jpg") << "no image";
  std::ofstream(directory / "empty.png");
  std::ofstream(directory / "more.png") << "neither";
  std::filesystem::create_directory(directory / "folder.png");
  std::vector<ImageFile> files = some_files(12);
  files[2].image = directory / "text.jpg";
  files[5].image = directory / "gone.jpg";
  files[6].image = directory / "folder.png";
  files[7].image = directory / "empty.png";
  files[11].image = directory / "more.png";
  CHECK_THROWS_WITH(scan_image_files(files, {.shape = kScanned}, true),
                    Contains("text.jpg: neither"));
  for (const bool keeps : {true, false}) {
    for (const int threads : {1, 4}) {
      const ScannedImages left =
          scan_image_files(files, {.shape = kScanned, .threads = threads, .skip_bad = true}, keeps);
      REQUIRE(left.skipped.count == 5);
      REQUIRE(left.skipped.reasons.size() == 3);
      CHECK_THAT(left.skipped.reasons[0], Contains("text.jpg: neither JPEG nor PNG"));
      CHECK_THAT(left.skipped.reasons[1], Contains("gone.jpg: No such file"));
      CHECK_THAT(left.skipped.reasons[2], Contains("folder.png: not a regular file"));
      REQUIRE(left.files.size() == 7);
      std::vector<ImageFile> good;
      for (const std::size_t i : {0, 1, 3, 4, 8, 9, 10}) good.push_back(files[i]);
      const ScannedImages expected = scan_image_files(good, {.shape = kScanned}, keeps);
      CHECK(left.images.pixels == expected.images.pixels);
      CHECK(left.images.labels == expected.images.labels);
      CHECK(left.content_hash == expected.content_hash);
      CHECK(left.hashes == expected.hashes);
    }
  }
}

TEST_CASE("an image with a mask of other sides is left out with it") {
  std::vector<ImageFile> files = some_files(2);
  files[0].mask = corpus_file("png/grey");
  files[1] = {.image = corpus_file("jpeg/turned"), .mask = corpus_file("png/grey")};
  const ScannedImages left = scan_image_files(files, {.shape = kScanned, .skip_bad = true}, true);
  CHECK(left.files.size() == 1);
  CHECK(left.images.masks.size() == 20 * 28);
  CHECK_THAT(left.skipped.reasons.at(0), Contains("a mask of 20x28 pixels"));
}

using Catch::Matchers::Contains;
namespace fs = std::filesystem;

constexpr ImageSettings kSettings{.shape = {.height = 12, .width = 16, .channels = 3}};

class Files {
 public:
  explicit Files(bool has_masks) : has_masks_(has_masks) {
    const std::vector<const char*> kinds{"png/colour", "jpeg/grey", "png/palette", "jpeg/colour"};
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      ImageFile file{.image = directory_ / fmt_name(i), .label = static_cast<std::uint8_t>(i)};
      fs::copy_file(fs::path(DDPRUN_CORPORA) / kinds[i], file.image);
      if (has_masks) {
        file.mask = directory_ / (fmt_name(i) + ".mask");
        fs::copy_file(fs::path(DDPRUN_CORPORA) / "png/grey", file.mask);
      }
      files_.push_back(file);
    }
  }
  [[nodiscard]] const std::vector<ImageFile>& list() const { return files_; }
  [[nodiscard]] ImageFileSet set(bool skips_bad = false) const {
    ScannedImages scanned = scan_image_files(files_, kSettings, false);
    const Normalization normalization = scanned.sums.normalization();
    ImageSettings settings = kSettings;
    settings.skip_bad = skips_bad;
    return {"files", std::move(scanned), has_masks_ ? 1 : 4, settings, normalization};
  }
  [[nodiscard]] ByteImageSet in_memory() const {
    ByteImages images = scan_image_files(files_, kSettings, true).images;
    images.classes = has_masks_ ? 1 : 4;
    Normalization normalization = measure_normalization(images);
    return {"memory", std::move(images), std::move(normalization)};
  }

 private:
  static std::string fmt_name(std::size_t i) { return std::to_string(i) + ".png"; }
  bool has_masks_;
  test::TempDir directory_;
  std::vector<ImageFile> files_;
};

TEST_CASE("a set of files has the samples of the same files in memory, and takes little of it") {
  const bool has_masks = GENERATE(false, true);
  const Files files(has_masks);
  const ImageFileSet set = files.set();
  const ByteImageSet memory = files.in_memory();
  CHECK(set.size() == 4);
  CHECK(set.target() == memory.target());
  CHECK(set.classes() == memory.classes());
  CHECK(set.content_hash() == memory.content_hash());
  CHECK(set.normalization().mean == memory.normalization().mean);
  CHECK_FALSE(set.is_in_memory());
  CHECK(set.bytes() == ImageFileSet::bytes_of(files.list()));
  CHECK(set.bytes() < 4 * 500);
  std::uint64_t most = 0;
  for (const ImageFile& file : files.list()) {
    std::vector<std::uint8_t> pixels(12 * 16 * 3), mask(has_masks ? 12 * 16 : 0);
    most = std::max(most, read_image_file(file, kSettings, pixels, mask));
  }
  CHECK(set.reading_bytes() == most);
  CHECK(memory.reading_bytes() == 0);
  for (std::size_t i = 0; i < 4; ++i) {
    std::vector<std::uint8_t> pixels(12 * 16 * 3), mask(has_masks ? 12 * 16 : 0);
    std::vector<std::uint8_t> expected_pixels(pixels), expected_mask(mask);
    const std::int32_t label = memory.read(i, expected_pixels, expected_mask);
    CHECK(set.read(i, pixels, mask) == label);
    CHECK(pixels == expected_pixels);
    CHECK(mask == expected_mask);
  }
}

TEST_CASE("a file that is gone, damaged or another one is named") {
  const Files files(true);
  const ImageFileSet set = files.set();
  const ImageFileSet skipping = files.set(true);
  std::vector<std::uint8_t> pixels(12 * 16 * 3), mask(12 * 16);
  const ImageFile& file = files.list()[2];
  SECTION("gone") {
    fs::remove(file.image);
    CHECK_THROWS_WITH(set.read(2, pixels, mask),
                      Contains("2.png: No such file") &&
                          Contains("when training began: put the file back, or begin a new run"));
    CHECK_THROWS_WITH(skipping.read(2, pixels, mask),
                      Contains("when training began, and --skip-bad leaves out files only at the "
                               "start: put the file back"));
  }
  SECTION("damaged") {
    fs::resize_file(file.mask, fs::file_size(file.mask) / 2);
    CHECK_THROWS_WITH(set.read(2, pixels, mask),
                      Contains("2.png.mask: ") && Contains("when training began"));
  }
  SECTION("another one") {
    fs::copy_file(files.list()[0].image, file.image, fs::copy_options::overwrite_existing);
    CHECK_THROWS_WITH(set.read(2, pixels, mask), Contains("2.png or ") &&
                                                     Contains("2.png.mask: not what it was") &&
                                                     Contains("must stay as they are"));
  }
  SECTION("the same again") {
    const fs::path copy = file.image + ".copy";
    fs::copy_file(file.image, copy);
    fs::rename(copy, file.image);
    CHECK_NOTHROW(set.read(2, pixels, mask));
  }
  CHECK_NOTHROW(set.read(1, pixels, mask));
}

}  // namespace

}  // namespace ddprun::trainer
