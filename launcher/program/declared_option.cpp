#include "launcher/program/declared_option.hpp"

#include <algorithm>
#include <array>

namespace ddprun::launcher {
namespace {

constexpr std::size_t kSourceBytesMax = 1024 * 1024;
constexpr std::array<std::string_view, 2> kDeclarations = {"add_argument", "option"};

/// True where `call`, all that stands before the quoted name, ends inside the brackets of a
/// declaration: `parser.add_argument("-r", `.
bool ends_in_declaration(std::string_view call) {
  const auto open = call.rfind('(');
  if (open == std::string_view::npos) return false;
  // Between the bracket and the name there may be other names of the same option.
  const auto between = call.substr(open + 1);
  const bool names_only = between.find_first_not_of(
                              " \t\r\n\\,\"'-_"
                              "abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == std::string_view::npos;
  if (!names_only || std::count(between.begin(), between.end(), '=') != 0) return false;
  const auto name = call.substr(0, open);
  const auto line = name.substr(name.rfind('\n') + 1);
  if (line.find('#') != std::string_view::npos) return false;  // commented out
  return std::any_of(kDeclarations.begin(), kDeclarations.end(),
                     [&](std::string_view known) { return name.ends_with(known); });
}

/// The text of `package.module` under the current folder; empty: the module lies elsewhere.
std::string module_source(std::string path, const FileProbe& files) {
  std::replace(path.begin(), path.end(), '.', '/');
  std::string source = files.contents(path + ".py", kSourceBytesMax);
  return source.empty() ? files.contents(path + "/__main__.py", kSourceBytesMax) : source;
}

}  // namespace

std::string source_of(const ProgramChoice& program, std::size_t own_arguments,
                      const FileProbe& files) {
  const bool module = program.kind == ProgramChoice::Kind::python_module;
  if (!module && program.kind != ProgramChoice::Kind::python_script) return "";
  const std::string& script = program.argv[program.argv.size() - own_arguments - 1];
  return module ? module_source(script, files) : files.contents(script, kSourceBytesMax);
}

std::optional<std::string> declared_option(std::string_view source,
                                           std::span<const std::string_view> spellings) {
  std::size_t first = std::string_view::npos;
  std::optional<std::string> declared;
  for (const std::string_view spelling : spellings) {
    for (const char quote : {'"', '\''}) {
      const std::string quoted = quote + std::string(spelling) + quote;
      for (auto at = source.find(quoted); at < first; at = source.find(quoted, at + 1)) {
        if (!ends_in_declaration(source.substr(0, at))) continue;
        first = at;
        declared = std::string(spelling);
      }
    }
  }
  return declared;
}

}  // namespace ddprun::launcher
