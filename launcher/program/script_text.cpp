#include "launcher/program/script_text.hpp"

#include <algorithm>

namespace ddprun::launcher {

std::string foreign_content(std::string_view name, std::string_view bytes) {
  if (bytes.starts_with("\x7f"
                        "ELF"))
    return "a program";
  if (!bytes.starts_with("#!")) return name.ends_with(".sh") ? "a shell script" : "";
  const auto line = bytes.substr(0, bytes.find('\n'));
  const bool python =
      line.find("python") != std::string::npos || line.find("pypy") != std::string::npos;
  return python ? "" : "a script of another interpreter (" + std::string(line) + ")";
}

bool is_bare_shell_script(std::string_view name, std::string_view first_bytes) {
  return name.ends_with(".sh") && !first_bytes.empty() && !first_bytes.starts_with("#!") &&
         !first_bytes.starts_with('\x7f');
}

std::string interpreter_of(std::string_view first_bytes) {
  if (!first_bytes.starts_with("#!")) return "";
  std::string_view line = first_bytes.substr(2, first_bytes.find('\n') - 2);
  constexpr std::string_view kBlanks = " \t\r";
  std::string_view name;
  while (!line.empty()) {
    line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
    const std::string_view word = line.substr(0, line.find_first_of(kBlanks));
    line.remove_prefix(word.size());
    if (word.empty()) break;
    if (!name.empty() && name != "env") return "";
    name = word.substr(word.rfind('/') + 1);  // npos + 1 is 0
    if (name.starts_with('-') || name.find('=') != std::string_view::npos) return "";
  }
  return name == "env" ? "" : std::string(name);
}

}  // namespace ddprun::launcher
