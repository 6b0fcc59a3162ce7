// A 64-bit hash of a span of floats: what the final table prints to show that two runs ended with
// the same bits.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace ddprun::trainer {

/// hash_bytes() (base/hash_bytes.hpp) of the floats, counted as floats. Of the bytes, not of the
/// values: 0.0 and -0.0 differ.
std::uint64_t hash_floats(std::span<const float> values);

/// Sixteen hexadecimal digits, as printed everywhere.
std::string hash_text(std::uint64_t hash);

}  // namespace ddprun::trainer
