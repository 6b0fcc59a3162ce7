// Images and their masks in folders become a pair of sets.
#include "trainer/data/image_folders.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>

#include "tests/support/temp_dir.hpp"
#include "trainer/data/decode_image.hpp"
#include "trainer/data/load.hpp"
#include "trainer/data/read_file.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
namespace fs = std::filesystem;

class MaskFolder {
 public:
  /// A pair of files `stem` in `inner`; `image` is one of the fuzzers' files.
  void add(const std::string& inner, const std::string& stem,
           const std::string& image = "png/colour") const {
    add_file(inner + "images/" + stem + ".png", image);
    add_file(inner + "masks/" + stem + ".jpg", "jpeg/grey");
  }
  void add_file(const std::string& name, const std::string& source) const {
    fs::create_directories((path() / name).parent_path());
    fs::copy_file(fs::path(DDPRUN_CORPORA) / source, path() / name);
  }
  [[nodiscard]] fs::path path() const { return directory_.path(); }
  [[nodiscard]] DataRequest request(std::optional<double> holdout = {},
                                    std::uint64_t seed = 0) const {
    return {
        .data = path().string(),
        .kind = DataKind::masked_images,
        .images = {
            .shape = {.height = 20, .width = 28, .channels = 3}, .holdout = holdout, .seed = seed}};
  }
  [[nodiscard]] TrainAndTest load(std::optional<double> holdout = {},
                                  std::uint64_t seed = 0) const {
    return load_data(request(holdout, seed));
  }

 private:
  test::TempDir directory_;
};

TEST_CASE("train/ with val/ or test/ makes two sets of images with masks") {
  const MaskFolder folder;
  folder.add("train/", "1");
  folder.add("train/", "2");
  folder.add("test/", "3");
  const TrainAndTest sets = folder.load();
  CHECK(sets.train->images()->target() == Target::mask);
  CHECK(sets.train->size() == 2);
  CHECK(sets.test->size() == 1);
  CHECK(sets.train->classes() == 1);
  std::vector<std::uint8_t> pixels(20 * 28 * 3), mask(20 * 28);
  sets.train->images()->read(0, pixels, mask);
  CHECK(mask[3 * 28 + 17] == 255);  // 177
  CHECK(mask[11 * 28 + 5] == 0);    // 114
  CHECK(known_data_bytes(folder.request()) == sets.train->bytes() + sets.test->bytes());
  CHECK_THROWS_WITH(folder.load(0.5),
                    Contains("--holdout=0.5 divides a folder of images/ and masks/, but ") &&
                        Contains(" has train/: leave out --holdout, or give --data=") &&
                        EndsWith("/train"));
}

TEST_CASE("a share is held out as torch's random_split does it") {
  const MaskFolder folder;
  // Every image has another grey, so that samples can be told apart.
  const std::vector<std::string> kinds{"png/alpha",        "png/colour",  "png/grey",
                                       "png/grey_alpha",   "png/one_bit", "png/palette",
                                       "png/sixteen_bits", "jpeg/colour", "jpeg/grey"};
  std::vector<std::vector<std::uint8_t>> pixels;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    folder.add("", std::to_string(i), kinds[i]);
    pixels.push_back(
        decode_image(read_file_or_gzip(fs::path(DDPRUN_CORPORA) / kinds[i]), 3, "").pixels);
  }
  const TrainAndTest sets = folder.load(0.25, 3);
  REQUIRE(sets.train->size() == 7);
  REQUIRE(sets.test->size() == 2);
  // torch.utils.data.random_split(range(9), [0.75, 0.25], generator=manual_seed(3))
  const std::vector<std::size_t> order{4, 1, 5, 6, 0, 2, 3, 8, 7};
  std::vector<std::uint8_t> read(20 * 28 * 3), mask(20 * 28);
  for (std::size_t i = 0; i < 9; ++i) {
    if (i < 7) {
      sets.train->images()->read(i, read, mask);
    } else {
      sets.test->images()->read(i - 7, read, mask);
    }
    if (read != pixels[order[i]]) FAIL("sample " << i << " is not image " << order[i]);
  }
}

TEST_CASE("shares that leave a side empty, and no share at all, are refused") {
  const MaskFolder folder;
  folder.add("", "1");
  folder.add("", "2");
  CHECK_THROWS_WITH(folder.load(),
                    Contains("without train/: give the share") && Contains("--holdout=0.15"));
  CHECK_THROWS_WITH(folder.load(0.2), Contains("--holdout=0.2: of 2 images 0 would be held out"));
  CHECK_THROWS_WITH(folder.load(1), Contains("2 would be held out and 0 left"));
}

TEST_CASE("images and masks that do not belong together are named") {
  const MaskFolder folder;
  folder.add("train/", "1");
  folder.add("test/", "2");
  SECTION("an image without a mask") {
    folder.add_file("train/images/9.png", "png/colour");
    CHECK_THROWS_WITH(folder.load(), Contains("train/images/9.png: no mask 9.jpg, .jpeg or .png") &&
                                         EndsWith(": add it, or remove the image"));
  }
  SECTION("a mask without an image") {
    folder.add_file("test/masks/9.png", "png/grey");
    CHECK_THROWS_WITH(folder.load(), Contains("test/masks/9.png: no image 9.jpg") &&
                                         EndsWith(": add it, or remove the mask"));
  }
  SECTION("two images of one name") {
    folder.add_file("train/images/1.jpg", "jpeg/colour");
    CHECK_THROWS_WITH(folder.load(),
                      Contains("1.jpg and 1.png have the same name but for its end"));
  }
  SECTION("a mask of other sides") {
    folder.add("train/", "7", "jpeg/turned");
    CHECK_THROWS_WITH(folder.load(), Contains("masks/7.jpg: a mask of 20x28 pixels") &&
                                         EndsWith("make both of one size, or remove both"));
  }
  SECTION("no folder of masks") {
    fs::remove_all(folder.path() / "train" / "masks");
    CHECK_THROWS_WITH(folder.load(), Contains("train/masks: no such folder"));
  }
}

TEST_CASE("masks of one value are refused with the threshold") {
  const MaskFolder folder;
  folder.add("train/", "1");
  folder.add("test/", "2");
  DataRequest request = folder.request();
  request.images.mask_threshold = 250;
  CHECK_THROWS_WITH(load_data(request),
                    Contains("no pixel of the training masks has a value of 250") &&
                        Contains("--mask-threshold"));
  request.images.mask_threshold = 1;
  CHECK_THROWS_WITH(load_data(request), Contains("every pixel of the training masks"));
}

TEST_CASE("masks to train on are refused before held-out images are read") {
  const MaskFolder folder;
  folder.add("train/", "1");
  folder.add("test/", "2");
  DataRequest request = folder.request();
  request.images.mask_threshold = 1;
  std::ofstream(folder.path() / "test" / "images" / "2.png") << "no image";
  CHECK_THROWS_WITH(load_data(request), Contains("every pixel of the training masks"));
}

TEST_CASE("held-out masks of one value are refused, too, in memory and as files") {
  const MaskFolder folder;
  folder.add_file("train/images/1.png", "png/colour");
  // Its values end at 214, those of the held-out mask at 213.
  folder.add_file("train/masks/1.png", "png/grey");
  folder.add("test/", "2");
  DataRequest request = folder.request();
  request.images.memory = GENERATE(std::uint64_t{1} << 30, std::uint64_t{1});
  request.images.mask_threshold = 214;
  CHECK_THROWS_WITH(load_data(request),
                    Contains("no pixel of the held-out masks has a value of 214 "
                             "or more, so IoU and F1 measure nothing: give "
                             "another --mask-threshold"));
  request.images.mask_threshold = 120;
  CHECK(load_data(request).test->images()->mask_pixels() > 0);
}

TEST_CASE("the colours of a mask with a palette do not count, whatever the threshold is") {
  const MaskFolder folder;
  folder.add_file("train/images/1.png", "png/colour");
  folder.add_file("train/masks/1.png", "png/palette");  // of 16 bright colours
  folder.add("test/", "2");
  DataRequest request = folder.request();
  request.images.mask_threshold = GENERATE(100, 213);
  const ByteImage labels =
      decode_mask(read_file_or_gzip(fs::path(DDPRUN_CORPORA) / "png/palette"), "");
  std::vector<std::uint8_t> pixels(20 * 28 * 3), mask(20 * 28);
  load_data(request).train->images()->read(0, pixels, mask);
  CHECK(mask == labels.pixels);
  CHECK(std::count(mask.begin(), mask.end(), 0) > 0);
  CHECK(std::count(mask.begin(), mask.end(), 255) > 0);
}

}  // namespace
}  // namespace ddprun::trainer
