#include "base/base64.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace ddprun {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t kNoDigit = 64;

constexpr std::array<std::uint8_t, 256> values_of_digits() {
  std::array<std::uint8_t, 256> values{};
  values.fill(kNoDigit);
  for (std::size_t i = 0; i < kDigits.size(); ++i)
    values[static_cast<std::uint8_t>(kDigits[i])] = static_cast<std::uint8_t>(i);
  return values;
}
constexpr auto kValues = values_of_digits();

}  // namespace

void append_base64(std::string& out, std::string_view bytes) {
  const auto byte = [&](std::size_t at) -> std::uint32_t {
    return at < bytes.size() ? static_cast<std::uint8_t>(bytes[at]) : 0;
  };
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::uint32_t group = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
    out += kDigits[group >> 18];
    out += kDigits[group >> 12 & 63];
    out += i + 1 < bytes.size() ? kDigits[group >> 6 & 63] : '=';
    out += i + 2 < bytes.size() ? kDigits[group & 63] : '=';
  }
}

std::optional<std::string> base64_decoded(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    const bool is_last = i + 4 == text.size();
    std::size_t digits = 4;
    if (is_last && text[i + 3] == '=') digits = text[i + 2] == '=' ? 2 : 3;
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 4; ++j) {
      const std::uint8_t value =
          j < digits ? kValues[static_cast<std::uint8_t>(text[i + j])] : std::uint8_t{0};
      if (value == kNoDigit) return std::nullopt;
      group = group << 6 | value;
    }
    const std::uint32_t rest = digits == 2 ? group & 0xffff : digits == 3 ? group & 0xff : 0;
    if (rest != 0) return std::nullopt;
    bytes += static_cast<char>(group >> 16);
    if (digits > 2) bytes += static_cast<char>(group >> 8);
    if (digits > 3) bytes += static_cast<char>(group);
  }
  return bytes;
}

}  // namespace ddprun
