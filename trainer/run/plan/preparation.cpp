#include "trainer/run/plan/preparation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

const char* channels_text(std::size_t count) { return count == 1 ? "channel" : "channels"; }

Normalization chosen_normalization(const Normalize& normalize, const ImageSet& set) {
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

void check_crop(const Crop& crop, const ImageSet& set) {
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

Preparation::Preparation(PreparationSettings settings, const DataSet& train)
    : settings_(std::move(settings)), shape_(image_shape(train)) {
  const ImageSet* const images = train.images();
  if (images == nullptr) {
    settings_ = {};
    return;
  }
  if (settings_.crop) {
    check_crop(*settings_.crop, *images);
    shape_.height = settings_.crop->height;
    shape_.width = settings_.crop->width;
  }
  sides_ = {.from_height = images->shape().height,
            .from_width = images->shape().width,
            .height = shape_.height,
            .width = shape_.width};
  normalization_ = chosen_normalization(settings_.normalize, *images);
  tables_ = tables_of(normalization_);
}

ImageWindow Preparation::window(std::uint64_t seed, std::uint64_t epoch,
                                std::uint32_t sample) const {
  const WindowChance chance{.padding = settings_.crop ? settings_.crop->padding : 0,
                            .mirrors = settings_.flip ? 1 : 0};
  return draw_window(sides_, chance, seed, epoch, sample);
}

}  // namespace ddprun::trainer
