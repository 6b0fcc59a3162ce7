// Numbers in headers of files.
#pragma once

#include <cstdint>
#include <span>

namespace ddprun::trainer {

/// Of the first four bytes, the most significant one first. Requires that many.
inline std::uint32_t big_endian(std::span<const std::uint8_t> bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
         std::uint32_t{bytes[2]} << 8 | std::uint32_t{bytes[3]};
}

}  // namespace ddprun::trainer
