#include "bench/train_step/cases.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <fstream>
#include <random>
#include <stdexcept>

#include "trainer/data/sentences.hpp"
#include "trainer/data/shapes.hpp"

namespace ddprun::bench {
namespace {

constexpr std::uint32_t kTestCount = 64;
constexpr std::uint8_t kClasses = 10;

/// So many that an epoch does not end within a measurement: its end is no part of a step.
std::uint32_t train_count(const Case& one) {
  constexpr std::uint32_t kRanksMax = 4;
  constexpr std::uint32_t kWarmMax = 20;
  return kRanksMax * static_cast<std::uint32_t>(one.batch) *
         (2 * static_cast<std::uint32_t>(one.steps) + kWarmMax);
}

void put_header(std::ofstream& out, const std::vector<std::uint32_t>& sides) {
  std::vector<std::uint32_t> words{0x800U + static_cast<std::uint32_t>(sides.size())};
  words.insert(words.end(), sides.begin(), sides.end());
  for (const std::uint32_t word : words)
    for (const int shift : {24, 16, 8, 0}) out.put(static_cast<char>(word >> shift));
}

void write_pair(const Case& one, const std::string& start, std::uint32_t count) {
  std::mt19937 random(1);
  const auto side = [](int length) { return static_cast<std::uint32_t>(length); };
  std::ofstream images(start + "-images-idx3-ubyte", std::ios::binary);
  std::vector<std::uint32_t> sides{count, side(one.height), side(one.width)};
  if (one.channels > 1) sides.push_back(side(one.channels));
  put_header(images, sides);
  std::size_t bytes = count;
  for (std::size_t k = 1; k < sides.size(); ++k) bytes *= sides[k];
  std::vector<std::uint8_t> noise(bytes);
  for (std::uint8_t& value : noise) value = static_cast<std::uint8_t>(random());
  images.write(reinterpret_cast<const char*>(noise.data()),
               static_cast<std::streamsize>(noise.size()));
  std::ofstream labels(start + "-labels-idx1-ubyte", std::ios::binary);
  put_header(labels, {count});
  for (std::uint32_t i = 0; i < count; ++i) labels.put(static_cast<char>(i % kClasses));
  if (!images.flush() || !labels.flush()) throw std::runtime_error("could not write " + start);
}

}  // namespace

std::string Case::shape_text() const { return fmt::format("{}x{}x{}", height, width, channels); }

std::size_t Case::texts() const { return tokens == 0 ? 0 : train_count(*this); }

std::size_t Case::data_bytes() const {
  if (tokens > 0) {
    const std::size_t held_out = texts() / 4;
    const auto mean = static_cast<std::size_t>(trainer::kSentenceTokensLeast + tokens) / 2;
    return (texts() + held_out) * mean * sizeof(std::int32_t);
  }
  const auto pixels = static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
  const auto values = static_cast<std::size_t>(channels) + (masks ? 1 : 0);
  const std::size_t count = masks ? trainer::kFewShapesTrainCount + trainer::kFewShapesTestCount
                                  : train_count(*this) + kTestCount;
  return pixels * values * count;
}

const std::vector<Case>& all_cases() {
  static const std::vector<Case> cases{
      {.name = "lenet", .model = "lenet", .steps = 100},
      {.name = "alexnet",
       .model = "alexnet",
       .height = 64,
       .width = 64,
       .channels = 3,
       .optimizer = "adamw",
       .steps = 8},
      {.name = "resnet18", .model = "resnet18"},
      {.name = "unet16",
       .model = "unet16",
       .height = 128,
       .width = 128,
       .channels = 3,
       .batch = 4,
       .masks = true,
       .steps = 3},
      {.name = "textclf-tiny",
       .model = "textclf",
       .batch = 32,
       .optimizer = "adamw",
       .tokens = 128,
       .size = "tiny",
       .steps = 50},
      {.name = "textclf-base",
       .model = "textclf",
       .batch = 8,
       .optimizer = "adamw",
       .tokens = 128,
       .size = "base",
       .steps = 3},
      // For its memory: a step takes half a minute.
      {.name = "unet16-448",
       .model = "unet16",
       .height = 448,
       .width = 448,
       .channels = 3,
       .batch = 4,
       .masks = true,
       .steps = 1,
       .by_default = false},
  };
  return cases;
}

void write_data(const Case& one, const std::string& folder) {
  if (one.masks || one.tokens > 0) return;
  write_pair(one, folder + "/train", train_count(one));
  write_pair(one, folder + "/t10k", kTestCount);
}

}  // namespace ddprun::bench
