#include "launcher/screen_text.hpp"

namespace ddprun::launcher {
namespace {

constexpr char kEscape = '\x1b';
constexpr char kBell = '\x07';

bool between(char c, unsigned char low, unsigned char high) {
  const auto byte = static_cast<unsigned char>(c);
  return low <= byte && byte <= high;
}

/// Bytes of the escape sequence that the text begins with; 0: of none that is whole.
std::size_t escape_bytes(std::string_view text) {
  if (text.size() < 2 || text[0] != kEscape) return 0;
  if (text[1] == '[') {
    std::size_t at = 2;
    while (at < text.size() && between(text[at], 0x20, 0x3f)) ++at;
    return at < text.size() && between(text[at], 0x40, 0x7e) ? at + 1 : 0;
  }
  if (text[1] != ']') return 0;
  const auto end = text.find_first_of(std::string_view("\x07\x1b"), 2);
  if (end == std::string_view::npos) return 0;
  if (text[end] == kBell) return end + 1;
  return text.substr(end).starts_with("\x1b\\") ? end + 2 : 0;
}

/// Bytes of the UTF-8 character that the text begins with; 0: it begins with none, or with one that
/// controls the terminal (U+0080 to U+009F).
std::size_t character_bytes(std::string_view text) {
  std::size_t bytes = 0;
  if (between(text[0], 0xc2, 0xdf)) bytes = 2;
  if (between(text[0], 0xe0, 0xef)) bytes = 3;
  if (between(text[0], 0xf0, 0xf4)) bytes = 4;
  if (bytes == 0 || text.size() < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if (!between(text[i], 0x80, 0xbf)) return 0;
  }
  return between(text[0], 0xc2, 0xc2) && between(text[1], 0x80, 0x9f) ? 0 : bytes;
}

}  // namespace

std::string on_screen(std::string_view text, std::size_t bytes_max) {
  std::string line;
  while (!text.empty()) {
    if (const std::size_t escape = escape_bytes(text); escape > 0) {
      text.remove_prefix(escape);
      continue;
    }
    std::string_view next = text.substr(0, 1);
    std::size_t taken = 1;
    if (text[0] == '\n' || text[0] == '\r' || text[0] == '\t') {
      next = " ";
    } else if (!between(text[0], 0x20, 0x7e)) {
      taken = character_bytes(text);
      next = taken > 0 ? text.substr(0, taken) : "?";
      taken = taken > 0 ? taken : 1;
    }
    if (line.size() + next.size() > bytes_max) return line + "...";
    line += next;
    text.remove_prefix(taken);
  }
  return line;
}

}  // namespace ddprun::launcher
