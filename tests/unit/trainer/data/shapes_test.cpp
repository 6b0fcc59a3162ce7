// The generated set: reproducible, balanced, and neither blank nor trivial.
#include "trainer/data/shapes.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "base/hash_bytes.hpp"
#include "trainer/data/load.hpp"

namespace ddprun::trainer {
namespace {

constexpr ImageShape kGreyShape{.height = 28, .width = 28, .channels = 1};
constexpr ImageShape kColour{.height = 32, .width = 32, .channels = 3};

std::uint64_t hash_of(const ByteImages& images) {
  std::uint64_t hash = 1469598103934665603ULL;
  for (const std::uint8_t value : images.pixels) hash = (hash ^ value) * 1099511628211ULL;
  for (const ImageLabel value : images.labels) hash = (hash ^ value) * 1099511628211ULL;
  return hash;
}

TEST_CASE("a sample is a pure function of seed and index") {
  const ByteImages together = make_shapes(1, 100, 8, kGreyShape);
  std::vector<std::uint8_t> alone(sample_size(kGreyShape));
  const std::uint8_t label = draw_shape(1, 105, kGreyShape, alone);
  CHECK(label == together.labels[5]);
  CHECK(std::equal(alone.begin(), alone.end(), together.pixels.begin() + 5 * 28 * 28));
  CHECK(make_shapes(2, 100, 8, kGreyShape).pixels != together.pixels);
}

TEST_CASE("any number of threads draws the same samples") {
  const ByteImages alone = make_shapes(1, 0, 300, kGreyShape);
  const ByteImages together = make_shapes(1, 0, 300, kGreyShape, Target::label, 4);
  CHECK(together.pixels == alone.pixels);
  CHECK(together.labels == alone.labels);
}

TEST_CASE("the generated pictures have the same bytes on every machine") {
  CHECK(hash_of(make_shapes(20, 0, 200, kGreyShape)) == 0xb618bfcf1ac95529ULL);
  CHECK(hash_of(make_shapes(20, 0, 200, kColour)) == 0x5c16ceec45608101ULL);
}

TEST_CASE("a mask is where the shape is, and drawing it changes no pixel") {
  const ByteImages labelled = make_shapes(5, 7, 20, kColour);
  const ByteImages masked = make_shapes(5, 7, 20, kColour, Target::mask);
  CHECK(masked.pixels == labelled.pixels);
  CHECK(masked.labels.empty());
  REQUIRE(masked.masks.size() == std::size_t{20} * 32 * 32);
  for (std::size_t image = 0; image < 20; ++image) {
    // The ink is lighter or darker than the ground by at least 50, more than the noise's mean.
    double inside = 0, outside = 0, sum_inside = 0, sum_outside = 0;
    for (std::size_t i = 0; i < 32 * 32; ++i) {
      const std::uint8_t mask = masked.masks[image * 32 * 32 + i];
      const double pixel = masked.pixels[(image * 32 * 32 + i) * 3];
      REQUIRE((mask == 0 || mask == 255));
      (mask == 255 ? inside : outside) += 1;
      (mask == 255 ? sum_inside : sum_outside) += pixel;
    }
    INFO("image " << image);
    REQUIRE(inside > 20);
    REQUIRE(outside > 20);
    CHECK(std::abs(sum_inside / inside - sum_outside / outside) > 25);
  }
}

TEST_CASE("all ten kinds are about equally frequent") {
  const ByteImages images = make_shapes(3, 0, 2000, kGreyShape);
  std::array<int, kShapeKinds> counts{};
  for (const ImageLabel label : images.labels) ++counts.at(label);
  CHECK(*std::min_element(counts.begin(), counts.end()) > 140);
  CHECK(*std::max_element(counts.begin(), counts.end()) < 260);
}

TEST_CASE("the set's constants normalise its pixels") {
  for (const ImageShape shape : {kGreyShape, kColour}) {
    const ByteImages images = make_shapes(20, 0, 2000, shape);
    const Normalization measured = measure_normalization(images);
    const Normalization constants = shapes_normalization(shape.channels);
    for (std::size_t c = 0; c < measured.mean.size(); ++c) {
      CHECK(measured.mean[c] == Approx(constants.mean[c]).margin(0.01));
      CHECK(measured.deviation[c] == Approx(constants.deviation[c]).margin(0.01));
    }
  }
}

TEST_CASE("training and held-out samples of the generated set are different ones") {
  const TrainAndTest sets = load_data({.images = {.shape = kGreyShape}});
  CHECK(sets.train->size() == kShapesTrainCount);
  CHECK(sets.test->size() == kShapesTestCount);
  std::vector<std::uint8_t> first(sample_size(kGreyShape));
  std::vector<std::uint8_t> held_out(sample_size(kGreyShape));
  sets.train->images()->read(0, first);
  sets.test->images()->read(0, held_out);
  CHECK(first != held_out);
}

constexpr ImageShape kCrackShape{.height = 64, .width = 96, .channels = 3};

TEST_CASE("a crack depends on its number alone") {
  const ByteImages all = make_cracks(7, 0, 4, kCrackShape);
  const ByteImages last = make_cracks(7, 3, 1, kCrackShape);
  CHECK(std::equal(last.pixels.begin(), last.pixels.end(), all.pixels.begin() + 3 * 64 * 96 * 3));
  CHECK(std::equal(last.masks.begin(), last.masks.end(), all.masks.begin() + 3 * 64 * 96));
  CHECK(make_cracks(8, 3, 1, kCrackShape).pixels != last.pixels);
}

TEST_CASE("the bytes of cracks are those of every machine") {
  const ByteImages images = make_cracks(7, 0, 3, kCrackShape);
  const auto hash = [](const std::vector<std::uint8_t>& bytes) {
    return hash_bytes(std::as_bytes(std::span(bytes)), bytes.size());
  };
  CHECK(hash(images.pixels) == 6263925056883738443ULL);
  CHECK(hash(images.masks) == 1346101107512961949ULL);
}

TEST_CASE("each picture has a crack, of a small part of its pixels and darker than the ground") {
  for (const ImageShape shape :
       {ImageShape{64, 96, 3}, ImageShape{32, 32, 1}, ImageShape{256, 256, 1}}) {
    const ByteImages images = make_cracks(7, 0, 50, shape);
    const std::size_t size = mask_size(shape);
    const auto channels = static_cast<std::size_t>(shape.channels);
    for (std::size_t i = 0; i < 50; ++i) {
      double crack = 0;
      double ground = 0;
      std::size_t marked = 0;
      for (std::size_t at = 0; at < size; ++at) {
        const double value = images.pixels[(i * size + at) * channels];
        const bool is_crack = images.masks[i * size + at] == 255;
        (is_crack ? crack : ground) += value;
        marked += is_crack ? 1 : 0;
      }
      INFO("picture " << i << ", " << marked << " of " << size);
      REQUIRE(marked > size / 200);
      REQUIRE(marked < size / 4);
      CHECK(crack / static_cast<double>(marked) + 30 < ground / static_cast<double>(size - marked));
    }
  }
}

TEST_CASE("cracks for training and held-out ones are different ones") {
  const DataRequest request{.data = "generated-cracks",
                            .kind = DataKind::masked_images,
                            .images = {.shape = {.height = 32, .width = 32, .channels = 3}}};
  const TrainAndTest sets = load_data(request);
  CHECK(sets.train->images()->target() == Target::mask);
  CHECK(sets.train->name() == "generated cracks 32x32x3");
  CHECK(sets.train->size() == kCracksTrainCount);
  CHECK(sets.test->size() == kCracksTestCount);
  CHECK(sets.train->content_hash() != sets.test->content_hash());
  CHECK(known_data_bytes(request) == sets.train->bytes() + sets.test->bytes());
}

}  // namespace

}  // namespace ddprun::trainer
