// --crop and --normalize: what they mean, and what is refused.
#include "trainer/run/plan/preparation.hpp"

#include <catch2/catch.hpp>

#include "trainer/data/sentences.hpp"
#include "trainer/data/shapes.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;

ByteImageSet set_of(ImageShape shape) {
  return {"some", make_shapes(3, 0, 2, shape), shapes_normalization(shape.channels)};
}

TEST_CASE("a crop is one side or two, perhaps with a padding") {
  const auto parsed = [](const char* text) { return to_string(parse_crop(text)); };
  CHECK(parsed("28") == "28x28");
  CHECK(parsed("24x32") == "24x32");
  CHECK(parsed("32+4") == "32x32+4");
  CHECK(parsed("24x32+0") == "24x32");
  CHECK(parsed("512x1+512") == "512x1+512");
  for (const char* text : {"", "0", "-1", "513", "28x", "x28", "28x28x3", "28+", "28+-1", "28+513",
                           "+4", "28+4+4", " 28", "28.5"}) {
    INFO(text);
    CHECK_THROWS_WITH(parse_crop(text),
                      Contains(std::string("--crop ") + text + ": must be like 28, 24x32 or 32+4"));
  }
}

TEST_CASE("a normalisation is a word, or means and as many deviations") {
  CHECK_FALSE(parse_normalize("measured").values);
  CHECK(to_string(parse_normalize("imagenet").values.value()) ==
        "0.485,0.456,0.406:0.229,0.224,0.225");
  CHECK(to_string(parse_normalize("0.5,-1,2:0.2,0.3,1").values.value()) == "0.5,-1,2:0.2,0.3,1");
  for (const char* text : {"", "mean", "0.5", "0.5:", ":0.5", "0.5:0", "0.5:-1", "0.5:nan", "nan:1",
                           "inf:1", "0.5,0.5:1", "0.5:1,1", "0.5,:1,1", "0.5:0.2:0.2", "1e9:1"}) {
    INFO(text);
    CHECK_THROWS_WITH(parse_normalize(text), Contains(std::string("--normalize ") + text +
                                                      ": must be measured, imagenet, none"));
  }
}

TEST_CASE("values are normalised by what was asked for") {
  const ByteImageSet set = set_of({.height = 8, .width = 8, .channels = 3});
  const auto value = [&](const char* how, std::size_t channel, std::size_t byte) {
    const Preparation preparation({.crop = {}, .flip = false, .normalize = parse_normalize(how)},
                                  set);
    REQUIRE(preparation.tables().size() == 3 * 256);
    return preparation.tables()[channel * 256 + byte];
  };
  CHECK(value("measured", 0, 255) == (1.0F - 0.5F) / set.normalization().deviation[0]);
  CHECK(value("none", 1, 51) == 51 / 255.0F);
  CHECK(value("none", 2, 0) == 0);
  CHECK(value("imagenet", 2, 100) == (100 / 255.0F - 0.406F) / 0.225F);
  CHECK(value("0.5,0.5,0.5:0.2,0.2,0.4", 2, 255) == (1.0F - 0.5F) / 0.4F);
  const Preparation none({.crop = {}, .flip = false, .normalize = parse_normalize("none")}, set);
  CHECK(to_string(none.normalization()) == "0,0,0:1,1,1");
}

TEST_CASE("means of another number of channels than the pictures are refused") {
  const ByteImageSet grey = set_of({.height = 8, .width = 8, .channels = 1});
  const auto prepare = [&](const char* how) {
    return Preparation({.crop = {}, .flip = false, .normalize = parse_normalize(how)}, grey);
  };
  CHECK_THROWS_WITH(prepare("imagenet"),
                    Contains("--normalize imagenet: means of 3 channels, but the images of some "
                             "have 1") &&
                        Contains("--image-shape=HxWx3"));
  CHECK_THROWS_WITH(prepare("0.5,0.5:1,1"), Contains("means of 2 channels"));
  CHECK(prepare("none").tables().size() == 256);
  CHECK(prepare("0.5:1").tables()[255] == 0.5F);
}

TEST_CASE("the network is made for the crop, which fits into the padded pictures") {
  const ByteImageSet set = set_of({.height = 12, .width = 16, .channels = 1});
  const auto prepare = [&](const char* crop) {
    return Preparation({.crop = parse_crop(crop), .flip = false, .normalize = {}}, set);
  };
  CHECK(prepare("8x16").shape() == ImageShape{.height = 8, .width = 16, .channels = 1});
  CHECK(prepare("20+4").shape() == ImageShape{.height = 20, .width = 20, .channels = 1});
  CHECK(prepare("8x10").held_out_window() == ImageWindow{2, 3, 0});
  CHECK(prepare("20+4").held_out_window() == ImageWindow{-4, -2, 0});
  CHECK_THROWS_WITH(prepare("16"), Contains("--crop 16x16: larger than the images of some:") &&
                                       Contains("such as 16x16+2"));
  CHECK_THROWS_WITH(prepare("20+3"), Contains("which are 18x22 with the padding"));
  CHECK_FALSE(Preparation({}, set).has_windows());
  CHECK(Preparation({.crop = {}, .flip = true, .normalize = {}}, set).has_windows());
}

TEST_CASE("the windows of an epoch are those that draw_window gives for the crop") {
  const ByteImageSet set = set_of({.height = 12, .width = 16, .channels = 1});
  const Preparation preparation({.crop = parse_crop("12+3"), .flip = true, .normalize = {}}, set);
  for (std::uint32_t sample = 0; sample < 50; ++sample)
    CHECK(preparation.window(9, 2, sample) ==
          draw_window({.from_height = 12, .from_width = 16, .height = 12, .width = 12},
                      {.padding = 3, .mirrors = 1}, 9, 2, sample));
}

TEST_CASE("texts are not prepared") {
  const TextSet texts("texts", make_sentences(1, 0, 3, 20));
  const Preparation preparation({}, texts);
  CHECK(preparation.tables().empty());
  CHECK(preparation.shape() == ImageShape{0, 0, 0});
  CHECK_FALSE(preparation.has_windows());
}

}  // namespace
}  // namespace ddprun::trainer
