// Image files that are decoded whenever they are read: the samples of the same files in memory, and
// what happens when a file changes.
#include "trainer/data/image_file_set.hpp"

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/support/temp_dir.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

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
