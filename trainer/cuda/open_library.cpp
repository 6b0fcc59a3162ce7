#include "trainer/cuda/open_library.hpp"

#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

namespace ddprun::trainer::cuda {
namespace {

std::string path_of(const LibraryHandle& library, const std::string& otherwise) {
  link_map* map = nullptr;
  const bool known = dlinfo(library.get(), RTLD_DI_LINKMAP, &map) == 0 && map != nullptr &&
                     map->l_name != nullptr && *map->l_name != '\0';
  return known ? map->l_name : otherwise;
}

/// Why an opened library cannot be used; empty: it can.
std::string look(const LibraryHandle& library, const LibraryNeed& need, std::size_t& version) {
  Symbols symbols(library);
  void (*version_function)() = nullptr;
  symbols.find(need.version_function, version_function);
  if (version_function == nullptr)
    return fmt::format("is no {}: it has no function {}", need.name, need.version_function);
  version = need.version(symbols);
  if (version < need.oldest)
    return fmt::format("is {} {}, and {} is the oldest that this build can use", need.name,
                       need.text(version), need.text(need.oldest));
  need.find(symbols);
  return symbols.missing().empty() ? "" : fmt::format("has no function {}", symbols.missing());
}

LibraryAttempt attempt(const LibraryCandidate& candidate, const LibraryNeed& need,
                       FoundLibrary& found) {
  const bool is_path = candidate.path.find('/') != std::string::npos;
  if (is_path && ::access(candidate.path.c_str(), F_OK) != 0) return {};
  void* const opened = dlopen(candidate.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) return failed_attempt(candidate, dlerror());
  const LibraryHandle library(opened, [](void* handle) { dlclose(handle); });
  const std::string path = path_of(library, candidate.path);
  if (std::string why = look(library, need, found.version); !why.empty())
    return {LibraryAttempt::Result::unusable, fmt::format("{} {}", path, why)};
  // Threads of the library may live as long as the process: it stays where it is.
  (void)dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
  found.handle = library;
  found.path = path;
  return {LibraryAttempt::Result::good, ""};
}

}  // namespace

FoundLibrary open_library_file(const std::string& path, const LibraryNeed& need) {
  FoundLibrary found;
  const LibraryAttempt tried = attempt({path, "the given file"}, need, found);
  found.why = tried.why;
  if (tried.result == LibraryAttempt::Result::absent)
    found.why = fmt::format("{} was not found", path);
  return found;
}

FoundLibrary open_library(const WantedLibrary& wanted, const LibraryPlaces& places,
                          const LibraryNeed& need) {
  FoundLibrary found;
  found.why = search_library(wanted, places, [&](const LibraryCandidate& candidate) {
                return attempt(candidate, need, found);
              }).why;
  return found;
}

}  // namespace ddprun::trainer::cuda
