// The pieces that text for a terminal is made of: characters with a width, escape sequences. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::agent {

/// utf8_character_bytes(), but 0 for characters that control the terminal: U+0000 to U+001F, U+007F
/// to U+009F.
std::size_t character_bytes(std::string_view text);

/// Whether the text is the beginning of a UTF-8 character; its other bytes may follow.
bool is_character_part(std::string_view text);

/// Columns of one character: 0 (it joins the one before it), 1 or 2. Bytes that are no UTF-8
/// take 1.
int character_columns(std::string_view character);

/// Columns of a line. Escape sequences take none.
int text_columns(std::string_view text);

/// The front of the text that fits into so many columns, with its escape sequences. Styles that are
/// on where it was cut are switched off.
std::string cut_to_columns(std::string_view text, int columns);

struct EscapeSequence {
  enum class Kind {
    incomplete,  ///< its end is not in the text
    style,       ///< `ESC [ ... m` with numbers only
    control,     ///< `ESC [ ... FINAL`: moves the cursor, erases, switches modes
    command,     ///< `ESC ] ... BEL`: titles, links
    other,       ///< without effect on lines: two or three bytes, or a string such as an image
  };
  Kind kind = Kind::other;
  std::size_t bytes = 0;        ///< of the whole sequence; not for incomplete
  char final = '\0';            ///< of a control
  std::string_view parameters;  ///< between `[` and FINAL, or `]` and the end
  /// The first number of the parameters; none or no number: `fallback`. At most 9999.
  [[nodiscard]] int number(int fallback) const;
};

/// Reads the escape sequence that the text begins with. A sequence that goes on for more than
/// kEscapeBytesMax, or across a newline, is none: then its first byte alone is an `other`.
EscapeSequence read_escape(std::string_view text);

/// More than the image protocols send at once.
inline constexpr std::size_t kEscapeBytesMax = 8192;
inline constexpr char kEscape = '\x1b';

/// Whether a whole line may pass as it is: of escape sequences it has styles and closed links
/// alone, and no carriage return or backspace.
bool stays_in_line(std::string_view line);

/// The bytes as text: with `?` for each control character that would draw (an escape sequence
/// that is no style, a carriage return, a backspace), and newlines without carriage returns.
std::string without_drawing(std::string_view bytes);

/// The line with `?` for each character that would control a terminal: control characters other
/// than tab, bell and escape, of either set (U+0001 to U+001F, U+0080 to U+009F). Empty: it has
/// none, and may stay as it is.
std::string without_controls(std::string_view line);

}  // namespace ddprun::agent
