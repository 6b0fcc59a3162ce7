// A worker's reader of images: the same samples from files as from memory, and how much of them it
// holds.
#include "trainer/data/sample_reader.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/unit/trainer/data/placed_set.hpp"

namespace ddprun::trainer {
namespace {

constexpr ImageShape kShape{.height = 8, .width = 8, .channels = 1};

TEST_CASE("a reader gives the samples that it expects, from memory or decoded ahead") {
  const Target target = GENERATE(Target::label, Target::mask);
  const ByteImages images = make_shapes(1, 0, 60, kShape, target);
  const std::size_t of_mask = target == Target::mask ? 64 : 0;
  for (const bool is_in_memory : {true, false}) {
    const PlacedSet set(images, is_in_memory);
    SampleReader reader(set, {.samples_of_step = 4, .threads = 3});
    for (const std::size_t step : {1U, 7U}) {
      const auto sample = [&](std::size_t place) { return place * step % 60; };
      reader.expect(60, sample);
      for (std::size_t place = 0; place < 60; ++place) {
        std::vector<std::uint8_t> pixels(64), mask(of_mask), expected(64), expected_mask(of_mask);
        const std::int32_t label = set.read(sample(place), expected, expected_mask);
        CHECK(reader.read(place, sample(place), pixels, mask) == label);
        CHECK(pixels == expected);
        CHECK(mask == expected_mask);
      }
    }
  }
}

TEST_CASE("a queue has room for two steps, a limit, and a sample for each thread and one more") {
  // And each thread takes 1000 bytes to make a sample.
  const PlacedSet files(make_shapes(1, 0, 2, kShape), false);
  using Settings = SampleReader::Settings;
  const auto bytes = [&](const Settings& settings) { return SampleReader::bytes(files, settings); };
  CHECK(bytes({.samples_of_step = 10, .threads = 2}) == 20 * 64 + 2 * 1000);
  CHECK(bytes({.samples_of_step = 1, .threads = 7}) == 8 * 64 + 7 * 1000);
  CHECK(bytes({.samples_of_step = 10'000'000, .threads = 2}) ==
        SampleReader::kQueueBytesMost + 2 * 1000);
  const PlacedSet memory(make_shapes(1, 0, 2, kShape), true);
  CHECK(SampleReader::bytes(memory, Settings{.samples_of_step = 10}) == 0);
  const PlacedSet masks(make_shapes(1, 0, 2, kShape, Target::mask), false);
  CHECK(SampleReader::bytes(masks, {.samples_of_step = 10, .threads = 2}) == 20 * 128 + 2 * 1000);
}

}  // namespace
}  // namespace ddprun::trainer
