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

}  // namespace ddprun
