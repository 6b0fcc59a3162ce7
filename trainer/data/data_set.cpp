#include "trainer/data/data_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

/// The first three, whatever is between them; 0 for those that are not there.
ImageShape numbers_in(const std::string& text) {
  ImageShape shape{.height = 0, .width = 0, .channels = 0};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int* number : {&shape.height, &shape.width, &shape.channels}) {
    at = std::from_chars(at, end, *number).ptr;
    if (at != end) ++at;
  }
  return shape;
}

}  // namespace

ImageShape parse_image_shape(const std::string& text) {
  const ImageShape shape = numbers_in(text);
  const bool has_sides = std::min(shape.height, shape.width) >= 1 &&
                         std::max(shape.height, shape.width) <= kShapeSideMax;
  const bool has_channels = shape.channels == 1 || shape.channels == 3;
  if (has_sides && has_channels && text == to_string(shape)) return shape;
  throw DataError(fmt::format(
      "--image-shape {}: must be like 64x96x3, with sides of at most {} and 1 or 3 channels", text,
      kShapeSideMax));
}

}  // namespace ddprun::trainer
