#include "base/printable.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>

namespace {

using ddprun::utf8_bytes_announced;
using ddprun::utf8_character_bytes;

/// In so many bytes, whether or not they are the fewest.
std::string encoded(std::uint32_t code, std::size_t bytes) {
  if (bytes == 1) return {static_cast<char>(code)};
  std::string text(bytes, '\0');
  for (std::size_t i = bytes; i-- > 1; code >>= 6)
    text[i] = static_cast<char>(0x80 | (code & 0x3f));
  text[0] = static_cast<char>((0xf00 >> bytes & 0xff) | code);
  return text;
}

std::size_t fewest_bytes(std::uint32_t code) {
  return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}

}  // namespace

TEST_CASE("every character of Unicode is accepted in the fewest bytes only, and no surrogate") {
  std::size_t accepted = 0;
  std::uint32_t wrong = 0;
  for (std::uint32_t code = 0; code <= 0x1fffff; ++code) {
    const bool is_character = code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
    for (std::size_t bytes = fewest_bytes(code); bytes <= 4; ++bytes) {
      const std::size_t wanted = is_character && bytes == fewest_bytes(code) ? bytes : 0;
      if (utf8_character_bytes(encoded(code, bytes) + "x") != wanted) wrong = code;
      if (wanted > 0) ++accepted;
    }
  }
  CHECK(wrong == 0);
  CHECK(accepted == 0x110000 - 0x800);
}

TEST_CASE("a part of a character is none, but its first byte announces the rest") {
  for (const std::uint32_t code : {0xe9U, 0x20acU, 0x1f600U}) {
    const std::string text = encoded(code, fewest_bytes(code));
    CHECK(utf8_bytes_announced(text[0]) == text.size());
    for (std::size_t bytes = 1; bytes < text.size(); ++bytes) {
      CHECK(utf8_character_bytes(text.substr(0, bytes)) == 0);
      CHECK(utf8_character_bytes(text.substr(0, bytes) + "aaaa") == 0);
      CHECK(utf8_character_bytes(text.substr(bytes)) == 0);
    }
  }
  CHECK(utf8_character_bytes("") == 0);
  for (const char byte : {'\x80', '\xbf', '\xc0', '\xc1', '\xf5', '\xff'})
    CHECK(utf8_bytes_announced(byte) == 0);
}
