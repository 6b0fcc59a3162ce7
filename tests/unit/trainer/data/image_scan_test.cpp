// All images of a list, read once: what is kept of them, and which are left out.
#include "trainer/data/image_scan.hpp"

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/support/temp_dir.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;

constexpr ImageShape kScanned{.height = 20, .width = 28, .channels = 3};

std::filesystem::path corpus_file(const std::string& name) {
  return std::filesystem::path(DDPRUN_CORPORA) / name;
}

/// Of three kinds in turn, with labels.
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

}  // namespace
}  // namespace ddprun::trainer
