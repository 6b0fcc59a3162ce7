#include "base/duration.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>

#include "base/lower_case.hpp"
#include "base/trimmed.hpp"

namespace ddprun {

std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  constexpr double kSecondsMax = 1e9;
  const std::string lower = lower_case(trimmed(text));
  if (lower.find('x') != std::string::npos) return std::nullopt;  // a hexadecimal number
  // Not std::from_chars, nor llround below: they would have every start load libm. The locale is C.
  char* end = nullptr;
  errno = 0;
  double seconds = std::strtod(lower.c_str(), &end);
  if (end == lower.c_str() || errno == ERANGE) return std::nullopt;
  const auto unit = trimmed(std::string_view(end, lower.c_str() + lower.size()));
  if (unit == "ms") {
    seconds /= 1000;
  } else if (unit == "m") {
    seconds *= 60;
  } else if (unit == "h") {
    seconds *= 3600;
  } else if (!unit.empty() && unit != "s") {
    return std::nullopt;
  }
  if (!(seconds >= 0) || seconds > kSecondsMax) return std::nullopt;  // nan, too
  const auto rounded =
      std::chrono::round<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
  return seconds > 0 ? std::max(rounded, std::chrono::nanoseconds(1)) : rounded;
}

}  // namespace ddprun
