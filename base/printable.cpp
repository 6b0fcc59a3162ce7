#include "base/printable.hpp"

#include <fmt/format.h>

namespace ddprun {

std::string printable(std::string_view text, std::string_view kept) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F have two bytes in UTF-8.
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    if (byte == 0xc2 && next >= 0x80 && next <= 0x9f) {
      result += fmt::format("\\x{:02x}\\x{:02x}", byte, next);
      ++i;
    } else if ((byte >= 0x20 && byte != 0x7f) || kept.find(text[i]) != std::string_view::npos) {
      result += text[i];
    } else if (byte == '\n') {
      result += "\\n";
    } else if (byte == '\t') {
      result += "\\t";
    } else if (byte == '\r') {
      result += "\\r";
    } else {
      result += fmt::format("\\x{:02x}", byte);
    }
  }
  return result;
}

namespace {

bool between(char c, unsigned char low, unsigned char high) {
  const auto byte = static_cast<unsigned char>(c);
  return low <= byte && byte <= high;
}

/// Whether `second`, which continues a character, may follow `first`: not in overlong forms,
/// surrogates, and what is beyond U+10FFFF.
bool second_byte_fits(char first, char second) {
  switch (static_cast<unsigned char>(first)) {
    case 0xe0:
      return between(second, 0xa0, 0xbf);
    case 0xed:
      return between(second, 0x80, 0x9f);
    case 0xf0:
      return between(second, 0x90, 0xbf);
    case 0xf4:
      return between(second, 0x80, 0x8f);
    default:
      return true;
  }
}

}  // namespace

std::size_t utf8_bytes_announced(char first) {
  if (between(first, 0, 0x7f)) return 1;
  if (between(first, 0xc2, 0xdf)) return 2;
  if (between(first, 0xe0, 0xef)) return 3;
  return between(first, 0xf0, 0xf4) ? 4 : 0;
}

std::size_t utf8_character_bytes(std::string_view text) {
  const std::size_t bytes = text.empty() ? 0 : utf8_bytes_announced(text[0]);
  if (bytes == 0 || text.size() < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if (!between(text[i], 0x80, 0xbf)) return 0;
  }
  return bytes > 1 && !second_byte_fits(text[0], text[1]) ? 0 : bytes;
}

}  // namespace ddprun
