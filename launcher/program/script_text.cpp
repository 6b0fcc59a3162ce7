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
  std::string_view name;
  while (!line.empty()) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t\r"), line.size()));
    const std::string_view word = line.substr(0, line.find_first_of(" \t\r"));
    line.remove_prefix(word.size());
    name = word.substr(word.rfind('/') + 1);  // npos + 1 is 0
    const bool goes_on = name == "env" || (word.starts_with('-') && !name.empty());
    if (!goes_on) break;
  }
  return name == "env" || name.starts_with('-') ? "" : std::string(name);
}

}  // namespace ddprun::launcher
