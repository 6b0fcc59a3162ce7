// A 64-bit hash of a span of floats: what the final table prints to show that two runs ended with
// the same bits.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace ddprun::trainer {

/// Hash of the bytes, not of the values: 0.0 and -0.0 differ. With h = 0x9ae16a3b2f90404f, two
/// floats at a time make one 64-bit word w (the first float in the low half; a last odd float
/// alone): h = (h xor w) * 0x9e3779b97f4a7c15, then h ^= h >> 32; at the end the same once more
/// with w = the number of floats. Not cryptographic.
std::uint64_t hash_floats(std::span<const float> values);

/// Sixteen hexadecimal digits, as printed everywhere.
std::string hash_text(std::uint64_t hash);

}  // namespace ddprun::trainer
