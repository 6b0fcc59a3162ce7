// The pieces that text for a terminal is made of: characters with a width, escape sequences. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::agent {

/// Bytes of the UTF-8 character that the text begins with; 0: it begins with none, or with one that
/// controls the terminal (U+0080 to U+009F).
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
    style,       ///< `ESC [ ... m`
    control,     ///< `ESC [ ... FINAL`: moves the cursor, erases, switches modes
    command,     ///< `ESC ] ... BEL`: titles, links
    other,       ///< two or three bytes without effect on lines
  };
  Kind kind = Kind::other;
  std::size_t bytes = 0;        ///< of the whole sequence; not for incomplete
  char final = '\0';            ///< of a control
  std::string_view parameters;  ///< between `[` and FINAL, or `]` and the end
  /// The first number of the parameters; none or no number: `fallback`. At most 9999.
  [[nodiscard]] int number(int fallback) const;
};

/// Reads the escape sequence that the text begins with. A sequence that goes on for more than
/// kEscapeBytesMax is none: then its first byte alone is an `other`.
EscapeSequence read_escape(std::string_view text);

inline constexpr std::size_t kEscapeBytesMax = 4096;
inline constexpr char kEscape = '\x1b';

/// Whether a whole line may go to a terminal as it is: of escape sequences it has styles and links
/// alone, and no other character that moves the cursor.
bool stays_in_line(std::string_view line);

}  // namespace ddprun::agent
