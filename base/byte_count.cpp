#include "base/byte_count.hpp"

#include <limits>

#include "base/number_in.hpp"
#include "base/trimmed.hpp"

namespace ddprun {

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

}  // namespace ddprun
