#include "launcher/report/screen_text.hpp"

#include "agent/terminal/terminal_text.hpp"

namespace ddprun::launcher {
namespace {

/// Bytes of the escape sequence that the text begins with; 0: of none that is whole.
std::size_t escape_bytes(std::string_view text) {
  using Kind = agent::EscapeSequence::Kind;
  const agent::EscapeSequence sequence = agent::read_escape(text);
  const bool whole = sequence.kind == Kind::style || sequence.kind == Kind::control ||
                     sequence.kind == Kind::command;
  return whole ? sequence.bytes : 0;
}

}  // namespace

std::string on_screen(std::string_view text, std::size_t bytes_max) {
  std::string line;
  while (!text.empty()) {
    if (const std::size_t escape = text[0] == agent::kEscape ? escape_bytes(text) : 0; escape > 0) {
      text.remove_prefix(escape);
      continue;
    }
    const std::size_t bytes = agent::character_bytes(text);
    const bool blank = text[0] == '\n' || text[0] == '\r' || text[0] == '\t';
    const std::string_view next = bytes > 0 ? text.substr(0, bytes) : blank ? " " : "?";
    if (line.size() + next.size() > bytes_max) return line + "...";
    line += next;
    text.remove_prefix(bytes > 0 ? bytes : 1);
  }
  return line;
}

}  // namespace ddprun::launcher
