#include "trainer/run/preparation.hpp"

#include <fmt/format.h>

#include <limits>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/number_in.hpp"
#include "trainer/data/image_shape.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

/// Of red, green and blue, as torchvision's models were trained with.
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

const char* channels_text(std::size_t count) { return count == 1 ? "channel" : "channels"; }

Normalization chosen_normalization(const Normalize& normalize, const DataSet& set) {
  const auto channels = static_cast<std::size_t>(set.shape().channels);
  if (!normalize.values) return set.normalization();
  if (normalize.text == "none") {
    return {.mean = std::vector<float>(channels, 0), .deviation = std::vector<float>(channels, 1)};
  }
  const std::size_t given = normalize.values->mean.size();
  if (given != channels) {
    throw DataError(fmt::format(
        "--normalize {}: means of {} {}, but the images of {} have {}: give as many, or "
        "--image-shape=HxWx{}",
        normalize.text, given, channels_text(given), set.name(), channels, given == 1 ? 1 : 3));
  }
  return *normalize.values;
}

std::vector<float> tables_of(const Normalization& normalization) {
  std::vector<float> tables;
  for (std::size_t c = 0; c < normalization.mean.size(); ++c) {
    for (std::size_t value = 0; value < kByteValues; ++value) {
      tables.push_back((static_cast<float>(value) / 255.0F - normalization.mean[c]) /
                       normalization.deviation[c]);
    }
  }
  return tables;
}

void check_crop(const Crop& crop, const DataSet& set) {
  const ImageShape shape = set.shape();
  const int padded_height = shape.height + 2 * crop.padding;
  const int padded_width = shape.width + 2 * crop.padding;
  if (crop.height <= padded_height && crop.width <= padded_width) return;
  throw DataError(fmt::format(
      "--crop {}: larger than the images of {}{}: give a smaller one, a padding, such as {}+{}, or "
      "a larger --image-shape",
      to_string(crop), set.name(),
      crop.padding > 0
          ? fmt::format(", which are {}x{} with the padding", padded_height, padded_width)
          : "",
      to_string(Crop{crop.height, crop.width, 0}),
      (std::max(crop.height - shape.height, crop.width - shape.width) + 1) / 2));
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

Preparation::Preparation(PreparationSettings settings, const DataSet& train)
    : settings_(std::move(settings)), shape_(train.shape()) {
  if (train.has_texts()) {
    settings_ = {};
    return;
  }
  if (settings_.crop) {
    check_crop(*settings_.crop, train);
    shape_.height = settings_.crop->height;
    shape_.width = settings_.crop->width;
  }
  sides_ = {.from_height = train.shape().height,
            .from_width = train.shape().width,
            .height = shape_.height,
            .width = shape_.width};
  normalization_ = chosen_normalization(settings_.normalize, train);
  tables_ = tables_of(normalization_);
}

ImageWindow Preparation::window(std::uint64_t seed, std::uint64_t epoch,
                                std::uint32_t sample) const {
  const WindowChance chance{.padding = settings_.crop ? settings_.crop->padding : 0,
                            .mirrors = settings_.flip ? 1 : 0};
  return draw_window(sides_, chance, seed, epoch, sample);
}

}  // namespace ddprun::trainer
