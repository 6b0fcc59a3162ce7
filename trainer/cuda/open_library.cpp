#include "trainer/cuda/open_library.hpp"

#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include "trainer/cuda/python_folders.hpp"

namespace ddprun::trainer::cuda {
namespace {

std::string path_of(const LibraryHandle& library, const std::string& otherwise) {
  link_map* map = nullptr;
  const bool known = dlinfo(library.get(), RTLD_DI_LINKMAP, &map) == 0 && map != nullptr &&
                     map->l_name != nullptr && *map->l_name != '\0';
  return known ? map->l_name : otherwise;
}

}  // namespace

FoundLibrary open_library(const WantedLibrary& wanted, const LibraryPlaces& places,
                          const std::function<std::string(const LibraryHandle&)>& look) {
  FoundLibrary found;
  const auto attempt = [&](const LibraryCandidate& candidate) -> LibraryAttempt {
    const bool is_path = candidate.path.find('/') != std::string::npos;
    if (is_path && ::access(candidate.path.c_str(), F_OK) != 0) return {};
    void* const opened = dlopen(candidate.path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (opened == nullptr) return failed_attempt(candidate, dlerror());
    const LibraryHandle library(opened, [](void* handle) { dlclose(handle); });
    const std::string path = path_of(library, candidate.path);
    if (std::string why = look(library); !why.empty())
      return {LibraryAttempt::Result::unusable, fmt::format("{} {}", path, why)};
    found.handle = library;
    found.path = path;
    return {LibraryAttempt::Result::good, ""};
  };
  found.why = search_library(
                  wanted, places, [] { return python_package_folders(); }, attempt)
                  .why;
  return found;
}

}  // namespace ddprun::trainer::cuda
