// How much a program prints of its own messages: the words of --log-level in all our programs.
#pragma once

#include "texts/words.hpp"

namespace ddprun {

enum class LogLevel { trace, debug, info, warning, error, off };

/// With the names of Python's logging.
constexpr auto words_for(LogLevel) {
  using enum LogLevel;
  return std::array{Word{trace, "trace"},
                    Word{debug, "debug"},
                    Word{info, "info"},
                    Word{warning, "warning", "warn"},
                    Word{error, "error", "critical|fatal"},
                    Word{off, "off"}};
}

}  // namespace ddprun
