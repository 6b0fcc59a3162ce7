// Images that are resized whenever they are read: the samples, the hash and the normalisation of
// those that are resized once, in less memory.
#include "trainer/data/resize.hpp"

#include <catch2/catch.hpp>

#include "trainer/data/data_set.hpp"
#include "trainer/data/shapes.hpp"

namespace ddprun::trainer {
namespace {

constexpr ImageShape kStored{.height = 8, .width = 8, .channels = 1};
constexpr ImageShape kLarge{.height = 21, .width = 30, .channels = 3};
constexpr std::uint64_t kImages = 40 + 12;

TrainAndTest sets_of(Target target, const ImageFit& fit) {
  return make_fitted_sets("/data/shapes", make_shapes(1, 0, 40, kStored, target),
                          make_shapes(1, 40, 12, kStored, target), fit);
}

std::uint64_t bytes_in(ImageShape shape, Target target) {
  return kImages * (sample_size(shape) + (target == Target::mask ? mask_size(shape) : kLabelBytes));
}

void check_equal(const ImageSet& one, const ImageSet& other) {
  CHECK(one.name() == other.name());
  CHECK(to_string(one.shape()) == to_string(other.shape()));
  CHECK(one.target() == other.target());
  CHECK(one.classes() == other.classes());
  CHECK(one.content_hash() == other.content_hash());
  CHECK(one.mask_pixels() == other.mask_pixels());
  CHECK(one.normalization().mean == other.normalization().mean);
  CHECK(one.normalization().deviation == other.normalization().deviation);
  REQUIRE(one.size() == other.size());
  const std::size_t of_mask = one.target() == Target::mask ? mask_size(one.shape()) : 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    std::vector<std::uint8_t> pixels(sample_size(one.shape())), mask(of_mask);
    std::vector<std::uint8_t> others_pixels(pixels), others_mask(mask);
    CHECK(one.read(i, pixels, mask) == other.read(i, others_pixels, others_mask));
    CHECK(pixels == others_pixels);
    CHECK(mask == others_mask);
  }
}

TEST_CASE("sets beyond the memory keep their own size and give the samples of those within it") {
  const Target target = GENERATE(Target::label, Target::mask);
  const std::uint64_t large = bytes_in(kLarge, target);
  const TrainAndTest kept = sets_of(target, {.shape = kLarge, .memory = large});
  CHECK(kept.train->is_in_memory());
  CHECK(kept.train->bytes() + kept.test->bytes() == large);
  for (const int threads : {1, 3}) {
    const TrainAndTest resized =
        sets_of(target, {.shape = kLarge, .memory = large - 1, .threads = threads});
    CHECK_FALSE(resized.train->is_in_memory());
    CHECK_FALSE(resized.test->is_in_memory());
    CHECK(resized.train->bytes() + resized.test->bytes() == bytes_in(kStored, target));
    check_equal(*resized.train->images(), *kept.train->images());
    check_equal(*resized.test->images(), *kept.test->images());
  }
}

TEST_CASE("sets that are smaller in the new size, or have no other size, stay in memory") {
  constexpr ImageShape kSmall{.height = 4, .width = 5, .channels = 1};
  const TrainAndTest small = sets_of(Target::label, {.shape = kSmall, .memory = 1});
  CHECK(small.train->is_in_memory());
  CHECK(small.train->bytes() + small.test->bytes() == bytes_in(kSmall, Target::label));
  CHECK(sets_of(Target::label, {.memory = 1}).train->is_in_memory());
  CHECK(sets_of(Target::label, {.shape = kStored, .memory = 1}).train->is_in_memory());
}

TEST_CASE("all images of a set and their masks become as large") {
  ByteImages images;
  images.shape = {.height = 2, .width = 2, .channels = 1};
  images.classes = 1;
  images.pixels = {0, 0, 0, 0, 200, 200, 200, 200};
  images.masks = {255, 0, 0, 0, 0, 0, 0, 255};
  const int threads = GENERATE(1, 3);
  const ByteImages same = fit_images(images, {}, threads);
  CHECK(same.pixels == images.pixels);
  const ByteImages larger =
      fit_images(images, ImageShape{.height = 2, .width = 4, .channels = 3}, threads);
  CHECK(to_string(larger.shape) == "2x4x3");
  CHECK(larger.pixels.size() == 2 * 24);
  CHECK(larger.pixels[24] == 200);
  CHECK(larger.masks ==
        std::vector<std::uint8_t>{255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255});
}

TEST_CASE("what a thread holds to resize an image is known") {
  const Target target = GENERATE(Target::label, Target::mask);
  const TrainAndTest sets = sets_of(target, {.shape = kLarge, .memory = 0});
  // 8x8x3 to 8x30x3, and to 21x30x3: more than the masks in both sizes and the image.
  CHECK(sets.train->images()->reading_bytes() == 8 * 30 * 3 + 21 * 30 * 3);
}

TEST_CASE("what sets come to hold is known from their sizes") {
  const ImageFit fit{.shape = kLarge, .memory = 100};
  CHECK(fitted_bytes(50, 100, fit) == 100);
  CHECK(fitted_bytes(50, 101, fit) == 50);
  CHECK(fitted_bytes(200, 101, fit) == 101);
  CHECK(fitted_bytes(200, 200, fit) == 200);
}

}  // namespace
}  // namespace ddprun::trainer
