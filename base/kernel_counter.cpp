#include "base/kernel_counter.hpp"

#include <algorithm>
#include <charconv>

namespace ddprun {
namespace {

constexpr std::string_view kBlanks = " \t";

}  // namespace

std::optional<std::uint64_t> counter_in(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const auto end = text.find('\n');
    const auto line = text.substr(0, end);
    if (line.size() > name.size() && line.starts_with(name) &&
        kBlanks.find(line[name.size()]) != std::string_view::npos) {
      auto digits = line.substr(name.size());
      digits.remove_prefix(std::min(digits.find_first_not_of(kBlanks), digits.size()));
      std::uint64_t value = 0;
      if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec == std::errc{})
        return value;
      return std::nullopt;
    }
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return std::nullopt;
}

}  // namespace ddprun
