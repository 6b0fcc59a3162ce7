// Generated pictures, which need no download, so that the first command works anywhere: ten kinds
// of shapes with noise, to be told apart or to be found, and cracks, dark polylines on rough ground
// with their masks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "trainer/data/byte_images.hpp"

namespace ddprun::trainer {

inline constexpr int kShapeKinds = 10;
inline constexpr std::size_t kShapesTrainCount = 12'000;
inline constexpr std::size_t kShapesTestCount = 2'000;
/// With masks, or of more than kManyShapesPixelsMax pixels.
inline constexpr std::size_t kFewShapesTrainCount = 1'200;
inline constexpr std::size_t kFewShapesTestCount = 200;
inline constexpr int kManyShapesPixelsMax = 64 * 64;

/// Draws sample `index` of the set `seed` into height x width x channels bytes, and, unless `mask`
/// is empty, 255 into its height x width bytes where the shape is, else 0; gives its kind. A pure
/// function of its arguments: no state, no library mathematics beyond sqrt, so the same bytes on
/// every machine.
std::uint8_t draw_shape(std::uint64_t seed, std::uint64_t index, ImageShape shape,
                        std::span<std::uint8_t> pixels, std::span<std::uint8_t> mask = {});

/// Samples first .. first + count - 1, with their kinds as labels or with masks, drawn by as many
/// threads as the system grants of those that are asked for.
ByteImages make_shapes(std::uint64_t seed, std::uint64_t first, std::size_t count, ImageShape shape,
                       Target target = Target::label, int threads = 1);

/// The set's own constants, for 1 or 3 channels.
Normalization shapes_normalization(int channels);

inline constexpr std::size_t kCracksTrainCount = 1'200;
inline constexpr std::size_t kCracksTestCount = 200;

/// Draws sample `index` of the set `seed` into height x width x channels bytes (1 or 3 channels),
/// and 255 into the height x width bytes of its mask where a crack is, else 0. One crack crosses
/// the picture, in every second one another begins on it; dark spots and a bright line are no
/// cracks. A pure function of its arguments, without library mathematics beyond sqrt: the same
/// bytes on every machine.
void draw_cracks(std::uint64_t seed, std::uint64_t index, ImageShape shape,
                 std::span<std::uint8_t> pixels, std::span<std::uint8_t> mask);

/// Samples first .. first + count - 1.
ByteImages make_cracks(std::uint64_t seed, std::uint64_t first, std::size_t count,
                       ImageShape shape);

}  // namespace ddprun::trainer
