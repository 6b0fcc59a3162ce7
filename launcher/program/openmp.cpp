#include "launcher/program/openmp.hpp"

#include <algorithm>

namespace ddprun::launcher {
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
