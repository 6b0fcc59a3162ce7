// Generated cracks: dark polylines on rough ground, with their masks. A set for models that learn
// masks that needs no download.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "trainer/data/byte_images.hpp"

namespace ddprun::trainer {

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
