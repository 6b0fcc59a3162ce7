// What every entry asks of the text of an error.
#pragma once

#include <cstddef>
#include <string>

#include "base/assert.hpp"
#include "base/printable.hpp"

namespace ddprun::test {

inline void check_error_line(const std::string& text) {
  constexpr std::size_t kBytesMax = 1000;
  DDPRUN_ASSERT(!text.empty() && text.size() < kBytesMax, "an error is a short line");
  DDPRUN_ASSERT(printable(text) == text, "an error can be shown anywhere");
}

}  // namespace ddprun::test
