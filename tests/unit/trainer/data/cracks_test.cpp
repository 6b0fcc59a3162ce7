// Generated cracks: the same bytes everywhere, with masks that mark the dark lines.
#include "trainer/data/cracks.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "base/hash_bytes.hpp"
#include "trainer/data/load.hpp"

namespace ddprun::trainer {
namespace {

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
  CHECK(sets.train->target() == Target::mask);
  CHECK(sets.train->name() == "generated cracks 32x32x3");
  CHECK(sets.train->size() == kCracksTrainCount);
  CHECK(sets.test->size() == kCracksTestCount);
  CHECK(sets.train->content_hash() != sets.test->content_hash());
  CHECK(known_data_bytes(request) == sets.train->bytes() + sets.test->bytes());
}

}  // namespace
}  // namespace ddprun::trainer
