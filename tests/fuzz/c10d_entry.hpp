// What the fuzzer and the corpus test do with one input.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddprun::test {

/// Feeds any bytes to a pure store, whole and in pieces, and aborts if the two differ or a promise
/// is broken. The first two bytes choose how the rest is cut and which dialects are accepted.
void fuzz_c10d(const std::uint8_t* data, std::size_t size);

}  // namespace ddprun::test
