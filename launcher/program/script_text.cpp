#include "launcher/program/script_text.hpp"

#include <algorithm>

#include "base/trimmed.hpp"

namespace ddprun::launcher {

namespace {

/// UTF-16 has zeros, too, but begins with its mark.
bool is_text(std::string_view bytes) {
  return bytes.find('\0') == std::string_view::npos || bytes.starts_with("\xff\xfe") ||
         bytes.starts_with("\xfe\xff");
}

/// What Python runs beside its sources: a zip file, or a compiled module.
bool is_for_python(std::string_view bytes) {
  return bytes.starts_with("PK\x03\x04") || bytes.substr(0, 4).ends_with("\r\n");
}

}  // namespace

std::string foreign_content(std::string_view name, std::string_view bytes) {
  if (bytes.starts_with("\x7f"
                        "ELF"))
    return "a program";
  if (!bytes.starts_with("#!")) {
    if (name.ends_with(".sh")) return "a shell script";
    return is_text(bytes) || is_for_python(bytes) ? "" : "a binary file";
  }
  const auto line = bytes.substr(0, bytes.find('\n'));
  const bool python =
      line.find("python") != std::string::npos || line.find("pypy") != std::string::npos;
  return python ? "" : "a script of another interpreter (" + std::string(line) + ")";
}

bool is_bare_shell_script(std::string_view name, std::string_view first_bytes) {
  return name.ends_with(".sh") && !first_bytes.empty() && !first_bytes.starts_with("#!") &&
         !first_bytes.starts_with('\x7f');
}

std::string lost_by_env(std::string_view first_bytes) {
  const auto line = first_bytes.substr(0, first_bytes.find('\n'));
  if (!line.starts_with("#!") || !line.ends_with('\r')) return "";
  const std::string_view command = trimmed(line.substr(2));
  const std::string_view first = command.substr(0, command.find_first_of(" \t"));
  if (first.substr(first.rfind('/') + 1) != "env") return "";
  return std::string(command.substr(command.find_last_of(" \t") + 1));
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

namespace {

/// The names of the libraries that a program needs stand near its beginning.
constexpr std::size_t kBytesRead = 256 * 1024;
constexpr std::array<std::string_view, 3> kLibraries = {"libgomp.so", "libomp.so", "libiomp5.so"};

bool is_interpreter(std::string_view file) {
  return file.substr(file.rfind('/') + 1).starts_with("python");  // npos + 1 is 0
}

}  // namespace

bool may_use_openmp(const ProgramChoice& program, const FileProbe& files) {
  if (program.kind == ProgramChoice::Kind::bundled) return false;
  if (!program.python.empty() || is_interpreter(program.file)) return true;
  const std::string bytes = files.contents(program.file, kBytesRead);
  return bytes.starts_with(
             "\x7f"
             "ELF") &&
         std::any_of(kLibraries.begin(), kLibraries.end(), [&](std::string_view library) {
           return bytes.find(library) != std::string::npos;
         });
}

}  // namespace ddprun::launcher
