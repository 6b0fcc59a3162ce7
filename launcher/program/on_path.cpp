#include "launcher/program/on_path.hpp"

namespace ddprun::launcher {
namespace {

constexpr std::string_view kDefaultPath = "/usr/local/bin:/usr/bin:/bin";

}  // namespace

bool is_program(const FileInfo& info) {
  return info.kind == FileInfo::Kind::regular && info.executable;
}

std::string path_of(const std::string& folder, std::string_view name) {
  if (folder.empty()) return std::string(name);
  return folder + (folder.back() == '/' ? "" : "/") + std::string(name);
}

std::optional<std::string> program_on_path(std::string_view name, const Environment& environment,
                                           const FileProbe& files) {
  const std::string path = lookup(environment, "PATH").value_or(std::string(kDefaultPath));
  std::string_view rest = path;
  while (true) {
    const auto colon = rest.find(':');
    const std::string folder(rest.substr(0, colon));
    std::string file = path_of(folder.empty() ? "." : folder, name);
    if (is_program(files.look(file))) return file;
    if (colon == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(colon + 1);
  }
}

}  // namespace ddprun::launcher
