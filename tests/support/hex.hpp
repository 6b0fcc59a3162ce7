// Bytes as test vectors write them.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace ddprun::test {

inline std::string to_hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text.push_back(kDigits[static_cast<unsigned char>(byte) >> 4]);
    text.push_back(kDigits[static_cast<unsigned char>(byte) & 15]);
  }
  return text;
}

/// Spaces between the digits are ignored.
inline std::string from_hex(std::string_view text) {
  const std::string_view digits = "0123456789abcdef";
  std::string bytes;
  int high = -1;
  for (const char character : text) {
    if (character == ' ') continue;
    const std::size_t digit = digits.find(character);
    if (digit == std::string_view::npos) throw std::invalid_argument("not a hex digit");
    if (high < 0) {
      high = static_cast<int>(digit);
    } else {
      bytes.push_back(static_cast<char>(high * 16 + static_cast<int>(digit)));
      high = -1;
    }
  }
  return bytes;
}

}  // namespace ddprun::test
