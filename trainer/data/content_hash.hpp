// A 64-bit hash of bytes: by it a run knows its data sets again, whatever their folders are called.
#pragma once

#include <cstdint>
#include <span>

namespace ddprun::trainer {

inline constexpr std::uint64_t kContentHashStart = 0x9ae16a3b2f90404fU;

/// The scheme of hash_floats (trainer/compute/hash.hpp) over bytes. With h = `start`, eight bytes
/// at a time make one 64-bit word w (little-endian; a shorter end is filled up with zeros):
/// h = (h xor w) * 0x9e3779b97f4a7c15, then h ^= h >> 32; at the end the same once more with w =
/// the number of bytes. Not cryptographic. `start` chains hashes: hash_content(b, hash_content(a)).
std::uint64_t hash_content(std::span<const std::uint8_t> bytes,
                           std::uint64_t start = kContentHashStart);

}  // namespace ddprun::trainer
