#include "agent/terminal/terminal_text.hpp"

#include <algorithm>
#include <clocale>
#include <cstdint>
#include <cwchar>

#include <locale.h>

#include "base/printable.hpp"

namespace ddprun::agent {
namespace {

constexpr char kBell = '\x07';
constexpr char kDelete = '\x7f';

bool between(char c, unsigned char low, unsigned char high) {
  const auto byte = static_cast<unsigned char>(c);
  return low <= byte && byte <= high;
}

wchar_t code_point(std::string_view character) {
  constexpr unsigned kFirstByteBits[] = {0x7f, 0x1f, 0x0f, 0x07};
  std::uint32_t code =
      static_cast<unsigned char>(character.front()) & kFirstByteBits[character.size() - 1];
  for (const char c : character.substr(1))
    code = code << 6 | (static_cast<unsigned char>(c) & 0x3f);
  return static_cast<wchar_t>(code);
}

/// The C library's table, whatever locale the user has.
int library_columns(wchar_t code) {
  static const locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (utf8 == nullptr) return 1;
  const locale_t before = uselocale(utf8);
  const int columns = wcwidth(code);
  uselocale(before);
  return columns < 0 ? 1 : columns;
}

/// What begins a string that ends with BEL or `ESC \`: commands, device controls (images), private
/// messages.
bool begins_string(char c) { return std::string_view("]P_^X").find(c) != std::string_view::npos; }

/// A program that forgets the end of its title must not lose the lines behind it.
EscapeSequence read_string(std::string_view text) {
  using enum EscapeSequence::Kind;
  const auto end = static_cast<std::size_t>(
      std::find_if(text.begin() + 2, text.end(), [](char c) { return between(c, 0, 0x1f); }) -
      text.begin());
  if (end == text.size() || (text[end] == kEscape && end + 1 == text.size()))
    return {incomplete, 0, '\0', {}};
  if (text[end] != kBell && text[end] != kEscape) return {other, 1, '\0', {}};
  const std::size_t bytes = text[end] == kBell ? end + 1 : text[end + 1] == '\\' ? end + 2 : end;
  return {text[1] == ']' ? command : other, bytes, '\0', text.substr(2, end - 2)};
}

EscapeSequence read_control(std::string_view text) {
  const auto end =
      static_cast<std::size_t>(std::find_if_not(text.begin() + 2, text.end(),
                                                [](char c) { return between(c, 0x20, 0x3f); }) -
                               text.begin());
  if (end == text.size()) return {EscapeSequence::Kind::incomplete, 0, '\0', {}};
  if (!between(text[end], 0x40, 0x7e)) return {EscapeSequence::Kind::other, 1, '\0', {}};
  const std::string_view parameters = text.substr(2, end - 2);
  // Others with this end are settings of the keyboard, which would outlive the job.
  const bool style =
      text[end] == 'm' && parameters.find_first_not_of("0123456789;:") == std::string_view::npos;
  return {style ? EscapeSequence::Kind::style : EscapeSequence::Kind::control, end + 1, text[end],
          parameters};
}

}  // namespace

std::size_t character_bytes(std::string_view text) {
  if (text.empty() || between(text[0], 0, 0x1f) || text[0] == kDelete) return 0;
  const std::size_t bytes = utf8_character_bytes(text);
  const bool controls = between(text[0], 0xc2, 0xc2) && bytes == 2 && between(text[1], 0x80, 0x9f);
  return controls ? 0 : bytes;
}

bool is_character_part(std::string_view text) {
  return !text.empty() && text.size() < utf8_bytes_announced(text[0]) &&
         std::all_of(text.begin() + 1, text.end(), [](char c) { return between(c, 0x80, 0xbf); });
}

int character_columns(std::string_view character) {
  if (character.size() < 2 || character_bytes(character) != character.size()) return 1;
  const wchar_t code = code_point(character);
  // Letters of Europe and the blocks that bars are drawn with need no look into the table.
  const bool narrow = (code >= 0xa0 && code < 0x300) || (code >= 0x2500 && code < 0x25a0);
  return narrow ? 1 : library_columns(code);
}

int text_columns(std::string_view text) {
  int columns = 0;
  while (!text.empty()) {
    std::size_t bytes = 1;
    if (text[0] == kEscape) {
      bytes = std::max<std::size_t>(1, read_escape(text).bytes);
    } else if (!between(text[0], 0, 0x1f)) {
      bytes = std::max<std::size_t>(1, character_bytes(text));
      columns += character_columns(text.substr(0, bytes));
    }
    text.remove_prefix(bytes);
  }
  return columns;
}

std::string cut_to_columns(std::string_view text, int columns) {
  std::string kept;
  bool styled = false;
  while (!text.empty()) {
    std::size_t bytes = 1;
    if (text[0] == kEscape) {
      const EscapeSequence sequence = read_escape(text);
      bytes = std::max<std::size_t>(1, sequence.bytes);
      if (sequence.kind == EscapeSequence::Kind::style) {
        kept += text.substr(0, bytes);
        styled = !sequence.parameters.empty() && sequence.parameters != "0";
      }
    } else if (text[0] == '\t') {
      if (--columns < 0) break;
      kept += ' ';
    } else if (!between(text[0], 0, 0x1f)) {
      bytes = std::max<std::size_t>(1, character_bytes(text));
      columns -= character_columns(text.substr(0, bytes));
      if (columns < 0) break;
      kept += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  if (styled) kept += "\x1b[0m";
  return kept;
}

int EscapeSequence::number(int fallback) const {
  int value = 0;
  std::size_t digits = 0;
  while (digits < parameters.size() && between(parameters[digits], '0', '9')) {
    value = std::min(9999, value * 10 + (parameters[digits] - '0'));
    ++digits;
  }
  return digits == 0 ? fallback : value;
}

EscapeSequence read_escape(std::string_view text) {
  const std::string_view seen = text.substr(0, kEscapeBytesMax);
  EscapeSequence sequence{EscapeSequence::Kind::incomplete, 0, '\0', {}};
  if (seen.size() >= 2 && seen[1] == '[') {
    sequence = read_control(seen);
  } else if (seen.size() >= 2 && begins_string(seen[1])) {
    sequence = read_string(seen);
  } else if (seen.size() >= 2 && between(seen[1], 0x20, 0x2f)) {
    if (seen.size() >= 3) sequence = {EscapeSequence::Kind::other, 3, '\0', {}};
  } else if (seen.size() >= 2) {
    sequence = {EscapeSequence::Kind::other, between(seen[1], 0x30, 0x7e) ? 2u : 1u, '\0', {}};
  }
  if (sequence.kind == EscapeSequence::Kind::incomplete && text.size() >= kEscapeBytesMax)
    return {EscapeSequence::Kind::other, 1, '\0', {}};
  return sequence;
}

bool stays_in_line(std::string_view line) {
  if (line.find_first_of(std::string_view("\r\b")) != std::string_view::npos) return false;
  bool link_open = false;
  for (auto at = line.find(kEscape); at != std::string_view::npos; at = line.find(kEscape, at)) {
    const EscapeSequence sequence = read_escape(line.substr(at));
    const bool link =
        sequence.kind == EscapeSequence::Kind::command && sequence.parameters.starts_with("8;");
    if (sequence.kind != EscapeSequence::Kind::style && !link) return false;
    if (link) link_open = sequence.parameters != "8;;";
    at += sequence.bytes;
  }
  return !link_open;
}

std::string without_drawing(std::string_view bytes) {
  std::string text(bytes);
  for (const char drawing : {'\r', '\b', kEscape}) {
    for (char& c : text) c = c == drawing ? '?' : c;  // many at once, as of a single comparison
  }
  for (auto at = bytes.find(kEscape); at != std::string_view::npos; at = bytes.find(kEscape, at)) {
    const EscapeSequence sequence = read_escape(bytes.substr(at));
    const bool style = sequence.kind == EscapeSequence::Kind::style;
    if (style) bytes.copy(text.data() + at, sequence.bytes, at);
    at += style ? sequence.bytes : 1;
  }
  std::size_t used = 0;
  std::size_t from = 0;
  const auto keep_until = [&](std::size_t end) {
    if (used != from) std::copy(text.data() + from, text.data() + end, text.data() + used);
    used += end - from;
  };
  for (auto at = bytes.find("\r\n"); at != std::string_view::npos; at = bytes.find("\r\n", from)) {
    keep_until(at);
    from = at + 1;
  }
  keep_until(bytes.size() - (bytes.ends_with('\r') ? 1 : 0));
  text.resize(used);
  return text;
}

std::string without_controls(std::string_view line) {
  std::string clean;
  std::size_t copied = 0;
  for (std::size_t at = 0; at < line.size();) {
    const bool control = between(line[at], 0, 0x1f) || between(line[at], 0x7f, 0x9f);
    const bool harmless = line[at] == '\t' || line[at] == kBell || line[at] == kEscape;
    const std::size_t bytes = character_bytes(line.substr(at));
    const bool wide_control =
        between(line[at], 0xc2, 0xc2) && at + 1 < line.size() && between(line[at + 1], 0x80, 0x9f);
    if ((control && !harmless) || wide_control) {
      clean += line.substr(copied, at - copied);
      clean += '?';
      at += wide_control ? 2 : 1;
      copied = at;
    } else {
      at += std::max<std::size_t>(1, bytes);
    }
  }
  if (copied > 0) clean += line.substr(copied);
  return clean;
}

}  // namespace ddprun::agent
