#include "trainer/run/cli/preparation_settings.hpp"

#include <fmt/format.h>

#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "base/number_in.hpp"
#include "trainer/data/data_set.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

/// For red, green and blue, as torchvision's models were trained with.
const Normalization kImagenet{.mean = {0.485F, 0.456F, 0.406F},
                              .deviation = {0.229F, 0.224F, 0.225F}};
constexpr float kNormalizeMax = 1000;

std::optional<int> side_in(std::string_view text, int least) {
  const auto side = number_in<int>(text);
  return side && *side >= least && *side <= kShapeSideMax ? side : std::nullopt;
}

std::optional<Crop> crop_in(std::string_view text) {
  const std::size_t plus = text.find('+');
  const auto padding =
      plus == std::string_view::npos ? std::optional(0) : side_in(text.substr(plus + 1), 0);
  const std::string_view sides = text.substr(0, plus);
  const std::size_t by = sides.find('x');
  const auto height = side_in(sides.substr(0, by), 1);
  const auto width = by == std::string_view::npos ? height : side_in(sides.substr(by + 1), 1);
  if (!padding || !height || !width) return std::nullopt;
  return Crop{.height = *height, .width = *width, .padding = *padding};
}

/// Empty where one of them is no number within the limits.
std::vector<float> numbers_in(std::string_view text, float low) {
  std::vector<float> numbers;
  while (true) {
    const std::size_t comma = text.find(',');
    const auto number = number_in<float>(text.substr(0, comma));
    // Also false of nan.
    if (!number || !(*number >= low && *number <= kNormalizeMax)) return {};
    numbers.push_back(*number);
    if (comma == std::string_view::npos) return numbers;
    text.remove_prefix(comma + 1);
  }
}

std::string list_of(const std::vector<float>& numbers) {
  std::string text;
  for (const float number : numbers) text += fmt::format("{}{}", text.empty() ? "" : ",", number);
  return text;
}

}  // namespace

Crop parse_crop(const std::string& text) {
  if (const auto crop = crop_in(text)) return *crop;
  throw DataError(fmt::format(
      "--crop {}: must be like 28, 24x32 or 32+4 (a padding of 4), with sides of 1 to {} and a "
      "padding of 0 to {}",
      text, kShapeSideMax, kShapeSideMax));
}

std::string to_string(const Crop& crop) {
  const std::string sides = fmt::format("{}x{}", crop.height, crop.width);
  return crop.padding == 0 ? sides : fmt::format("{}+{}", sides, crop.padding);
}

Normalize parse_normalize(const std::string& text) {
  if (text == "measured") return {};
  if (text == "imagenet") return {.text = text, .values = kImagenet};
  if (text == "none") return {.text = text, .values = Normalization{.mean = {0}, .deviation = {1}}};
  const std::size_t colon = text.find(':');
  if (colon != std::string::npos) {
    Normalization values{
        .mean = numbers_in(std::string_view(text).substr(0, colon), -kNormalizeMax),
        .deviation = numbers_in(std::string_view(text).substr(colon + 1),
                                std::numeric_limits<float>::min())};
    if (!values.mean.empty() && values.mean.size() == values.deviation.size())
      return {.text = text, .values = std::move(values)};
  }
  throw DataError(fmt::format(
      "--normalize {}: must be measured, imagenet, none, or means and as many deviations such as "
      "0.5,0.5,0.5:0.2,0.2,0.2, means up to {} and deviations above 0",
      text, kNormalizeMax));
}

std::string to_string(const Normalization& values) {
  return list_of(values.mean) + ":" + list_of(values.deviation);
}

}  // namespace ddprun::trainer
