// Compiled without contraction of a * b + c (see CMakeLists.txt), so that machines with and without
// fused multiply-add draw the same bytes.
#include "trainer/data/shapes.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <thread>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/start_thread.hpp"
#include "trainer/data/random_stream.hpp"

namespace ddprun::trainer {
namespace {

/// Whether the point (x, y), in units of the shape's radius, belongs to the kind.
bool inside(int kind, float x, float y) {
  const float ax = std::abs(x);
  const float ay = std::abs(y);
  const float square = x * x + y * y;
  switch (kind) {
    case 0:
      return square < 1.0F;  // disc
    case 1:
      return square < 1.0F && square > 0.36F;  // ring
    case 2:
      return ax < 0.85F && ay < 0.85F;  // square
    case 3:
      return std::max(ax, ay) < 0.9F && std::max(ax, ay) > 0.5F;  // frame
    case 4:
      return y < 0.8F && y > -1.0F && ax < (y + 1.0F) * 0.55F;  // triangle
    case 5:
      return std::max(ax, ay) < 1.0F && std::min(ax, ay) < 0.3F;  // plus
    case 6:
      return std::max(ax, ay) < 0.9F && std::abs(ax - ay) < 0.4F;  // cross
    case 7:
      return ax < 0.9F && ay < 0.9F && ay > 0.35F;  // two bars
    case 8:
      return ax < 0.95F && ay < 0.95F && x * y > 0.0F;  // checkers
    default:
      return square < 1.0F && y > -0.1F;  // half a disc
  }
}

float clamp_byte(float value) { return std::clamp(value, 0.0F, 255.0F); }

/// That a thread takes at a time.
constexpr std::size_t kShapesAtOnce = 64;

constexpr int kSegments = 7;
constexpr int kSpots = 4;
/// Pixels of the shorter side for which the widths below are meant.
constexpr float kUsualSide = 64;

struct Point {
  float x = 0;
  float y = 0;
};

struct Segment {
  Point from, to;
  float half_width = 1;
};

Point unit(Point direction) {
  const float length = std::sqrt(direction.x * direction.x + direction.y * direction.y);
  return {direction.x / length, direction.y / length};
}

float distance(Point point, const Segment& segment) {
  const Point line{segment.to.x - segment.from.x, segment.to.y - segment.from.y};
  const Point away{point.x - segment.from.x, point.y - segment.from.y};
  const float square = line.x * line.x + line.y * line.y;
  const float along =
      std::clamp((away.x * line.x + away.y * line.y) / std::max(square, 1e-6F), 0.0F, 1.0F);
  const Point rest{away.x - along * line.x, away.y - along * line.y};
  return std::sqrt(rest.x * rest.x + rest.y * rest.y);
}

/// Appends a polyline that begins at `from` and turns a little from segment to segment.
void append_line(RandomStream& stream, Point from, Point direction, float step, float half_width,
                 std::vector<Segment>& segments) {
  for (int i = 0; i < kSegments; ++i) {
    const float turn = stream.uniform(-0.7F, 0.7F);
    direction = unit({direction.x - turn * direction.y, direction.y + turn * direction.x});
    const float length = step * stream.uniform(0.6F, 1.4F);
    const Point to{from.x + direction.x * length, from.y + direction.y * length};
    segments.push_back({from, to, half_width * stream.uniform(0.7F, 1.3F)});
    from = to;
  }
}

std::vector<Segment> make_segments(RandomStream& stream, float height, float width) {
  const float side = std::min(height, width);
  const float half_width = std::max(0.8F, side / kUsualSide * stream.uniform(0.9F, 1.6F));
  std::vector<Segment> segments;
  // From the left edge to the right, or from the top to the bottom.
  const bool is_level = stream.below(2) == 0;
  const float place = stream.uniform(0.2F, 0.8F);
  const float slope = stream.uniform(-0.5F, 0.5F);
  const Point begin = is_level ? Point{0, place * height} : Point{place * width, 0};
  const Point ahead = unit(is_level ? Point{1, slope} : Point{slope, 1});
  append_line(stream, begin, ahead, (is_level ? width : height) / (kSegments - 1), half_width,
              segments);
  if (stream.below(2) == 0) {
    const Segment& root = segments[static_cast<std::size_t>(1 + stream.below(kSegments - 2))];
    const Point aside{-ahead.y, ahead.x};
    append_line(stream, root.to, aside, side * 0.08F, half_width * 0.8F, segments);
  }
  return segments;
}

}  // namespace

std::uint8_t draw_shape(std::uint64_t seed, std::uint64_t index, ImageShape shape,
                        std::span<std::uint8_t> pixels, std::span<std::uint8_t> mask) {
  DDPRUN_ASSERT(pixels.size() == sample_size(shape) && shape.channels <= 3, "pixels of one sample");
  DDPRUN_ASSERT(mask.empty() || mask.size() == mask_size(shape), "mask of one sample");
  RandomStream stream(seed, index);
  const int kind = static_cast<int>(stream.next() % kShapeKinds);
  const auto side = static_cast<float>(std::min(shape.height, shape.width));

  const float radius = side * stream.uniform(0.24F, 0.4F);
  const float centre_x =
      static_cast<float>(shape.width) * 0.5F + stream.uniform(-0.12F, 0.12F) * side;
  const float centre_y =
      static_cast<float>(shape.height) * 0.5F + stream.uniform(-0.12F, 0.12F) * side;
  // A turn by up to about 17 degrees, as a unit vector made without sine and cosine.
  const float slope = stream.uniform(-0.3F, 0.3F);
  const float cosine = 1.0F / std::sqrt(1.0F + slope * slope);
  const float sine = slope * cosine;
  const float aspect = stream.uniform(0.8F, 1.25F);

  std::array<float, 3> ground{};
  std::array<float, 3> ink{};
  const float direction = stream.next() % 2 == 0 ? 1.0F : -1.0F;
  for (std::size_t c = 0; c < 3; ++c) {
    ground[c] = stream.uniform(60.0F, 195.0F);
    ink[c] = ground[c] + direction * stream.uniform(50.0F, 110.0F);
  }
  const float noise = stream.uniform(10.0F, 50.0F);
  // A stray line through the picture, so that not every edge belongs to the shape.
  const float stray_offset = stream.uniform(-0.45F, 0.45F) * side;
  const float stray_slope = stream.uniform(-1.0F, 1.0F);
  const float stray_ink = stream.uniform(-60.0F, 60.0F);

  std::size_t out = 0;
  std::size_t mask_out = 0;
  for (int row = 0; row < shape.height; ++row) {
    for (int column = 0; column < shape.width; ++column) {
      const float dx = static_cast<float>(column) + 0.5F - centre_x;
      const float dy = static_cast<float>(row) + 0.5F - centre_y;
      const float x = (cosine * dx + sine * dy) / radius * aspect;
      const float y = (cosine * dy - sine * dx) / radius;
      const bool is_ink = inside(kind, x, y);
      if (!mask.empty()) mask[mask_out++] = is_ink ? 255 : 0;
      const float line =
          static_cast<float>(row) - static_cast<float>(shape.height) * 0.5F - stray_offset -
          stray_slope * (static_cast<float>(column) - static_cast<float>(shape.width) * 0.5F);
      const float stray = std::abs(line) < 0.8F ? stray_ink : 0.0F;
      // Triangular noise: the two halves of one draw for every channel.
      for (int c = 0; c < shape.channels; ++c) {
        const std::uint64_t draw = stream.next();
        const float a = static_cast<float>(draw >> 48) * 0x1p-16F;
        const float b = static_cast<float>((draw >> 32) & 0xffff) * 0x1p-16F;
        const auto channel = static_cast<std::size_t>(c);
        const float value = (is_ink ? ink[channel] : ground[channel]) + stray + (a - b) * noise;
        pixels[out++] = static_cast<std::uint8_t>(clamp_byte(value));
      }
    }
  }
  return static_cast<std::uint8_t>(kind);
}

ByteImages make_shapes(std::uint64_t seed, std::uint64_t first, std::size_t count, ImageShape shape,
                       Target target, int threads) {
  const bool masked = target == Target::mask;
  ByteImages images;
  images.shape = shape;
  images.classes = masked ? 1 : kShapeKinds;
  const std::size_t size = sample_size(shape);
  images.pixels.resize(count * size);
  if (masked) {
    images.masks.resize(count * mask_size(shape));
  } else {
    images.labels.resize(count);
  }
  const auto draw = [&](std::size_t i) {
    const auto pixels = std::span(images.pixels).subspan(i * size, size);
    const auto mask = masked
                          ? std::span(images.masks).subspan(i * mask_size(shape), mask_size(shape))
                          : std::span<std::uint8_t>();
    const std::uint8_t kind = draw_shape(seed, first + i, shape, pixels, mask);
    if (!masked) images.labels[i] = kind;
  };
  std::atomic<std::size_t> next{0};
  const auto draw_some = [&] {
    for (std::size_t begin = next.fetch_add(kShapesAtOnce); begin < count;
         begin = next.fetch_add(kShapesAtOnce))
      for (std::size_t i = begin; i < std::min(count, begin + kShapesAtOnce); ++i) draw(i);
  };
  std::vector<std::thread> helpers;
  const auto useful = std::min<std::size_t>(static_cast<std::size_t>(std::max(threads, 1)),
                                            count / kShapesAtOnce + 1);
  while (helpers.size() + 1 < useful) {
    auto helper = start_thread("shapes", draw_some);
    if (!helper) break;
    helpers.push_back(std::move(*helper));
  }
  draw_some();
  for (std::thread& helper : helpers) helper.join();
  return images;
}

Normalization shapes_normalization(int channels) {
  return Normalization{.mean = std::vector<float>(static_cast<std::size_t>(channels), 0.5F),
                       .deviation = std::vector<float>(static_cast<std::size_t>(channels), 0.216F)};
}

void draw_cracks(std::uint64_t seed, std::uint64_t index, ImageShape shape,
                 std::span<std::uint8_t> pixels, std::span<std::uint8_t> mask) {
  DDPRUN_ASSERT(
      pixels.size() == sample_size(shape) && mask.size() == mask_size(shape) && shape.channels <= 3,
      "pixels and mask of one sample");
  RandomStream stream(seed, index);
  const auto height = static_cast<float>(shape.height);
  const auto width = static_cast<float>(shape.width);
  const float side = std::min(height, width);
  const std::vector<Segment> segments = make_segments(stream, height, width);
  // What is no crack: a bright line and dark spots.
  std::vector<Segment> line;
  append_line(stream, {stream.uniform(0, width), 0}, {0, 1}, height / kSegments, side / kUsualSide,
              line);
  std::array<Segment, kSpots> spots;
  for (Segment& spot : spots) {
    const Point centre{stream.uniform(0, width), stream.uniform(0, height)};
    spot = {centre, centre, std::max(1.0F, side / kUsualSide * stream.uniform(1.0F, 2.5F))};
  }
  std::array<float, 3> ground{};
  for (float& value : ground) value = stream.uniform(115.0F, 165.0F);
  const float depth = stream.uniform(45.0F, 85.0F);
  const float noise = stream.uniform(10.0F, 35.0F);
  const float slope_x = stream.uniform(-25.0F, 25.0F) / width;
  const float slope_y = stream.uniform(-25.0F, 25.0F) / height;

  const auto is_in = [](Point point, std::span<const Segment> shapes) {
    return std::any_of(shapes.begin(), shapes.end(), [&](const Segment& segment) {
      return distance(point, segment) < segment.half_width;
    });
  };
  std::size_t out = 0;
  std::size_t mask_out = 0;
  for (int row = 0; row < shape.height; ++row) {
    for (int column = 0; column < shape.width; ++column) {
      const Point point{static_cast<float>(column) + 0.5F, static_cast<float>(row) + 0.5F};
      const bool is_crack = is_in(point, segments);
      mask[mask_out++] = is_crack ? 255 : 0;
      float shade = slope_x * point.x + slope_y * point.y;
      if (is_in(point, line)) shade += 30;
      if (is_in(point, spots)) shade -= 35;
      if (is_crack) shade -= depth;
      const std::uint64_t grain = stream.next();
      for (std::size_t c = 0; c < static_cast<std::size_t>(shape.channels); ++c) {
        // Triangular noise, most of it the same in every channel.
        const float a = static_cast<float>(grain >> 48) * 0x1p-16F;
        const float b = static_cast<float>(grain >> (16 * c) & 0xffff) * 0x1p-16F;
        const float value = ground[c] + shade + (a - b) * noise;
        pixels[out++] = static_cast<std::uint8_t>(std::clamp(value, 0.0F, 255.0F));
      }
    }
  }
}

ByteImages make_cracks(std::uint64_t seed, std::uint64_t first, std::size_t count,
                       ImageShape shape) {
  ByteImages images;
  images.shape = shape;
  images.classes = 1;
  const std::size_t size = sample_size(shape);
  const std::size_t of_mask = mask_size(shape);
  images.pixels.resize(count * size);
  images.masks.resize(count * of_mask);
  for (std::size_t i = 0; i < count; ++i) {
    draw_cracks(seed, first + i, shape, std::span(images.pixels).subspan(i * size, size),
                std::span(images.masks).subspan(i * of_mask, of_mask));
  }
  return images;
}

}  // namespace ddprun::trainer
