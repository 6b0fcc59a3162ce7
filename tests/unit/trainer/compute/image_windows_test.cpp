// Windows of pictures: where they lie, and the values that a network sees of them.
#include "trainer/compute/image_windows.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "trainer/compute/inputs.hpp"

namespace ddprun::trainer {
namespace {

constexpr WindowSides kSides{.from_height = 4, .from_width = 5, .height = 3, .width = 2};

TEST_CASE("a window shows the pixels behind its corner, mirrored ones from right to left") {
  const auto seen = [](const ImageWindow& window) {
    std::vector<std::int64_t> pixels;
    for (int row = 0; row < kSides.height; ++row)
      for (int column = 0; column < kSides.width; ++column)
        pixels.push_back(pixel_of(window, kSides, row, column));
    return pixels;
  };
  using Pixels = std::vector<std::int64_t>;
  CHECK(seen({0, 0, 0}) == Pixels{0, 1, 5, 6, 10, 11});
  CHECK(seen({1, 3, 0}) == Pixels{8, 9, 13, 14, 18, 19});
  CHECK(seen({1, 3, 1}) == Pixels{9, 8, 14, 13, 19, 18});
  CHECK(seen({-1, -1, 0}) == Pixels{-1, -1, -1, 0, -1, 5});
  CHECK(seen({-1, -1, 1}) == Pixels{-1, -1, 0, -1, 5, -1});
  CHECK(seen({2, 4, 0}) == Pixels{14, -1, 19, -1, -1, -1});
}

TEST_CASE("values of windows are those of the tables, and of the byte 0 outside the picture") {
  constexpr std::uint32_t kChannels = 3;
  std::vector<float> tables(kChannels * kByteValues);
  std::iota(tables.begin(), tables.end(), -50.0F);
  std::vector<std::uint8_t> pixels(2 * 4 * 5 * kChannels);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 53 + 1);
  const std::array<ImageWindow, 2> windows{{{-1, 3, 1}, {2, -1, 0}}};
  const InputImages images{
      .pixels = pixels, .tables = tables, .to = {}, .windows = windows, .sides = kSides};
  REQUIRE(images.values() == 2 * 3 * 2 * kChannels);
  std::vector<float> expected;
  for (std::size_t sample = 0; sample < 2; ++sample) {
    for (int row = 0; row < 3; ++row) {
      for (int column = 0; column < 2; ++column) {
        const ImageWindow& window = windows[sample];
        const int y = window.row + row;
        const int x = window.column + (window.is_mirrored != 0 ? 1 - column : column);
        for (std::size_t c = 0; c < kChannels; ++c) {
          const bool inside = y >= 0 && y < 4 && x >= 0 && x < 5;
          const std::size_t place =
              inside
                  ? ((sample * 4 + static_cast<std::size_t>(y)) * 5 + static_cast<std::size_t>(x)) *
                            kChannels +
                        c
                  : 0;
          expected.push_back(tables[c * kByteValues + (inside ? pixels[place] : 0)]);
        }
      }
    }
  }
  std::vector<float> whole(expected.size());
  look_up(images, 0, whole);
  CHECK(whole == expected);
  // In pieces that begin and end anywhere.
  std::vector<float> pieces(expected.size());
  for (std::size_t at = 0; at < pieces.size(); at += 5 * kChannels)
    look_up(
        images, at,
        std::span(pieces).subspan(at, std::min<std::size_t>(5 * kChannels, pieces.size() - at)));
  CHECK(pieces == expected);
  // As a GPU's threads do it.
  const WindowValues values{pixels.data(), windows.data(), tables.data(), kSides, kChannels};
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(values.at(i) == expected[i]);
}

TEST_CASE("a drawn window depends on seed, epoch and sample alone, and on each of them") {
  constexpr WindowSides kLarge{.from_height = 200, .from_width = 300, .height = 100, .width = 100};
  constexpr WindowChance kChance{.padding = 4, .mirrors = 1};
  // What runs have drawn: a change would make a resumed run another one.
  CHECK(draw_window(kLarge, kChance, 0, 0, 0) == ImageWindow{67, 91, 1});
  CHECK(draw_window(kLarge, kChance, 0x123456789abcdef0U, 0x100000002U, 77) ==
        ImageWindow{90, 140, 1});
  const auto drawn = [&](std::uint64_t seed, std::uint64_t epoch) {
    std::vector<ImageWindow> windows;
    for (std::uint32_t sample = 0; sample < 20; ++sample)
      windows.push_back(draw_window(kLarge, kChance, seed, epoch, sample));
    return windows;
  };
  CHECK(drawn(1, 2) == drawn(1, 2));
  CHECK(drawn(1, 2) != drawn(2, 2));
  CHECK(drawn(1, 2) != drawn(1 + (1ULL << 32), 2));
  CHECK(drawn(1, 2) != drawn(1, 3));
  CHECK(drawn(1, 2) != drawn(1, 2 + (1ULL << 32)));
  const std::vector<ImageWindow> some = drawn(1, 2);
  CHECK(std::count(some.begin(), some.end(), some[0]) == 1);
}

TEST_CASE("every place within the padding is drawn equally often, mirrored in half of the cases") {
  constexpr std::uint32_t kDraws = 60'000;
  constexpr WindowSides kFive{.from_height = 6, .from_width = 4, .height = 6, .width = 4};
  std::array<std::array<int, 5>, 5> counts{};
  int mirrored = 0;
  for (std::uint32_t sample = 0; sample < kDraws; ++sample) {
    const ImageWindow window = draw_window(kFive, {.padding = 2, .mirrors = 1}, 7, 3, sample);
    REQUIRE((window.row >= -2 && window.row <= 2 && window.column >= -2 && window.column <= 2));
    ++counts[static_cast<std::size_t>(window.row + 2)][static_cast<std::size_t>(window.column + 2)];
    mirrored += window.is_mirrored;
  }
  // Six deviations around the mean.
  for (const auto& row : counts)
    for (const int count : row) CHECK(std::abs(count - 2400) < 6 * 48);
  CHECK(std::abs(mirrored - 30'000) < 6 * 123);
}

TEST_CASE("without padding and mirrors a window of the picture's size is the picture") {
  constexpr WindowSides kSame{.from_height = 8, .from_width = 9, .height = 8, .width = 9};
  for (std::uint32_t sample = 0; sample < 100; ++sample)
    CHECK(draw_window(kSame, {}, 1, 1, sample) == ImageWindow{});
}

TEST_CASE("the window in the middle lies where torchvision's CenterCrop has it") {
  const auto corner = [](int from, int to) {
    return centre_window({.from_height = from, .from_width = 10, .height = to, .width = 10}).row;
  };
  // int(round((from - to) / 2)) in Python, which rounds half to even.
  CHECK(corner(10, 10) == 0);
  CHECK(corner(11, 10) == 0);
  CHECK(corner(12, 10) == 1);
  CHECK(corner(13, 10) == 2);
  CHECK(corner(14, 10) == 2);
  CHECK(corner(15, 10) == 2);
  CHECK(corner(17, 10) == 4);
  // Larger than the picture: (to - from) // 2 rows of zeros above.
  CHECK(corner(10, 11) == 0);
  CHECK(corner(10, 12) == -1);
  CHECK(corner(10, 13) == -1);
  CHECK(corner(10, 14) == -2);
  CHECK(centre_window({.from_height = 9, .from_width = 20, .height = 4, .width = 9}) ==
        ImageWindow{2, 6, 0});
}

}  // namespace
}  // namespace ddprun::trainer
