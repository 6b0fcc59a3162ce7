#include "trainer/data/generated.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "trainer/data/cracks.hpp"
#include "trainer/data/image_shape.hpp"
#include "trainer/data/shapes.hpp"
#include "trainer/data/text_set.hpp"

namespace ddprun::trainer {
namespace {

// Of the sets, not of the run: every run sees the same samples.
constexpr std::uint64_t kShapesSeed = 20;
constexpr std::uint64_t kSentencesSeed = 21;
constexpr std::uint64_t kCracksSeed = 22;

/// Of generated pictures and sentences: for training, held out.
struct Counts {
  std::size_t train = 0;
  std::size_t test = 0;
};

Counts count_shapes(ImageShape shape, Target target) {
  const bool few = target == Target::mask || shape.height * shape.width > kManyShapesPixelsMax;
  if (few) return {kFewShapesTrainCount, kFewShapesTestCount};
  return {kShapesTrainCount, kShapesTestCount};
}

Counts count_sentences(const SentenceSettings& settings) {
  const auto count = static_cast<std::size_t>(settings.count);
  return {count, (count + 3) / 4};
}

}  // namespace

TrainAndTest generate_shapes(ImageShape shape, Target target) {
  const bool masked = target == Target::mask;
  const std::string name =
      fmt::format("generated {} {}", masked ? "masked shapes" : "shapes", to_string(shape));
  const auto make = [&](std::size_t first, std::size_t count) {
    return std::make_unique<ByteImageSet>(name,
                                          make_shapes(kShapesSeed, first, count, shape, target),
                                          shapes_normalization(shape.channels));
  };
  const Counts counts = count_shapes(shape, target);
  return {.train = make(0, counts.train), .test = make(counts.train, counts.test)};
}

std::uint64_t generated_shape_bytes(ImageShape shape, Target target) {
  const Counts counts = count_shapes(shape, target);
  const std::size_t of_target = target == Target::mask ? mask_size(shape) : kLabelBytes;
  return (counts.train + counts.test) * (sample_size(shape) + of_target);
}

TrainAndTest generate_cracks(ImageShape shape) {
  const std::string name = fmt::format("generated cracks {}", to_string(shape));
  const auto channels = static_cast<std::size_t>(shape.channels);
  // The set's own constants.
  const Normalization normalization{.mean = std::vector<float>(channels, 0.5F),
                                    .deviation = std::vector<float>(channels, 0.13F)};
  const auto make = [&](std::size_t first, std::size_t count) {
    return std::make_unique<ByteImageSet>(name, make_cracks(kCracksSeed, first, count, shape),
                                          normalization);
  };
  return {.train = make(0, kCracksTrainCount), .test = make(kCracksTrainCount, kCracksTestCount)};
}

std::uint64_t generated_crack_bytes(ImageShape shape) {
  return (kCracksTrainCount + kCracksTestCount) * (sample_size(shape) + mask_size(shape));
}

TrainAndTest generate_sentences(const SentenceSettings& settings) {
  const std::string name = fmt::format("generated sentences of up to {} tokens", settings.tokens);
  const auto make = [&](std::size_t first, std::size_t count) {
    return std::make_unique<TextSet>(name,
                                     make_sentences(kSentencesSeed, first, count, settings.tokens));
  };
  const Counts counts = count_sentences(settings);
  return {.train = make(0, counts.train), .test = make(counts.train, counts.test)};
}

std::uint64_t generated_sentence_bytes(const SentenceSettings& settings) {
  constexpr std::size_t kMeasured = 1'000;
  const Counts counts = count_sentences(settings);
  const std::size_t measured = std::min(counts.train, kMeasured);
  const TokenizedTexts first = make_sentences(kSentencesSeed, 0, measured, settings.tokens);
  return bytes_of(first) * (counts.train + counts.test) / measured;
}

}  // namespace ddprun::trainer
