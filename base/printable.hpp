// Text of users in lines of ours. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

/// The text with what would control a terminal or begin another line written as in C: `\n`, `\x1b`.
/// The control characters of either set are (U+0001 to U+001F, U+007F to U+009F); other bytes stay.
/// `kept`: control characters that stay as they are.
std::string printable(std::string_view text, std::string_view kept = {});

/// Bytes of a character that begins with this byte, 1 to 4; 0: none begins with it.
std::size_t utf8_bytes_announced(char first);

/// Bytes of the UTF-8 character that `text` begins with; 0: it begins with none. All characters are
/// accepted, control characters too. Overlong forms, surrogates, what is beyond U+10FFFF, and a
/// character that `text` has only a part of are none.
std::size_t utf8_character_bytes(std::string_view text);

/// Without the mark that some editors, mostly of Windows, put before a text in UTF-8.
constexpr std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

}  // namespace ddprun
