#include "base/duration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <limits>
#include <string>

#include "base/lower_case.hpp"
#include "base/number_in.hpp"
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

std::optional<std::uint64_t> parse_byte_count(std::string_view text) {
  text = trimmed(text);
  constexpr std::string_view kUnits = "KMG";
  int shift = 0;
  if (!text.empty()) {
    const char last = text.back();
    const char unit = last >= 'a' && last <= 'z' ? static_cast<char>(last - 'a' + 'A') : last;
    if (const auto found = kUnits.find(unit); found != std::string_view::npos) {
      shift = 10 * (static_cast<int>(found) + 1);
      text.remove_suffix(1);
    }
  }
  text = trimmed(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto number = number_in<std::int64_t>(text);
  if (!number || *number < 1 || *number > (std::numeric_limits<std::int64_t>::max() >> shift))
    return std::nullopt;
  return static_cast<std::uint64_t>(*number) << shift;
}

std::string bytes_text(std::uint64_t bytes) {
  const auto count = static_cast<double>(bytes);
  if (count < 1e6) return fmt::format("{:.0f} kB", count / 1e3);
  if (count < 1e9) return fmt::format("{:.0f} MB", count / 1e6);
  if (count < 1e12) return fmt::format("{:.2f} GB", count / 1e9);
  return fmt::format("{:.2f} TB", count / 1e12);
}

}  // namespace ddprun
