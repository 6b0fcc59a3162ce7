#include "base/file_name.hpp"

#include <algorithm>

namespace ddprun {
namespace {

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U; }

}  // namespace

std::string file_name_of(std::string_view text) {
  std::size_t end = std::min(text.size(), kFileNameBytesMax);
  while (end > 0 && end < text.size() && continues_character(text[end])) --end;
  std::string name(text.substr(0, end));
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '/' || (c >= 0 && c < ' ') || c == 127; },
      '_');
  return name.starts_with('.') ? "_" + name : name;
}

}  // namespace ddprun
