// Sizes that the parts of the log path share.
#pragma once

#include <cstddef>

#include "base/byte_output.hpp"

namespace ddprun::agent {

/// A line longer than this is given in pieces.
inline constexpr std::size_t kLineBytesMax = 64 * 1024;
/// What is read from a worker at once, and about what goes to the console at once.
inline constexpr std::size_t kLogBufferBytes = 512 * 1024;
/// Less than this is copied into a buffer of its size, rather than given away in one of the above.
inline constexpr std::size_t kSmallReadBytes = 16 * 1024;

inline constexpr std::size_t kTailLines = 20;          ///< of stderr, kept for the report
inline constexpr std::size_t kTailLineBytesMax = 400;  ///< a longer one is shortened there

static_assert(kLogBufferBytes % kLineBytesMax == 0);
// A whole buffer read means a pipe that fills up: no time to rest.
static_assert(kLogBufferBytes >= kBusyPipeBytes / 4);

}  // namespace ddprun::agent
