#include "trainer/cuda/library_search.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ddprun::trainer::cuda {
namespace {

constexpr const char* kGivenPlace = "DDPRUN_CUDA_PATH";
constexpr const char* kToolkitPlace = "the CUDA toolkit";
constexpr const char* kPythonPlace = "python3's packages";

/// Adds where `file` may be in a folder that holds a toolkit, a package or the libraries
/// themselves.
void add_folder(const std::string& folder, const std::string& file, const char* place,
                std::vector<LibraryCandidate>& candidates) {
  for (const char* inside : {"/", "/lib64/", "/lib/"})
    candidates.push_back({folder + inside + file, place});
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(':'), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

}  // namespace

LibraryPlaces library_places(const EnvironmentLookup& lookup, std::string beside,
                             std::function<std::vector<std::string>()> python) {
  LibraryPlaces places;
  places.python = std::move(python);
  if (const char* given = lookup(kGivenPlace); given != nullptr) places.given = given;
  places.beside = std::move(beside);
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    const char* const value = lookup(name);
    if (value != nullptr && *value != '\0') places.toolkits.emplace_back(value);
  }
  places.toolkits.emplace_back("/usr/local/cuda");
  return places;
}

std::vector<LibraryCandidate> library_candidates(const std::string& file,
                                                 const LibraryPlaces& places) {
  std::vector<LibraryCandidate> candidates;
  for (const std::string& folder : split(places.given))
    add_folder(folder, file, kGivenPlace, candidates);
  if (!places.beside.empty()) candidates.push_back({places.beside + "/" + file, places.beside});
  candidates.push_back({file, "the loader's path"});
  for (const std::string& folder : places.toolkits)
    add_folder(folder, file, kToolkitPlace, candidates);
  return candidates;
}

LibrarySearch search_library(
    const WantedLibrary& wanted, const LibraryPlaces& places,
    const std::function<LibraryAttempt(const LibraryCandidate&)>& attempt) {
  std::string unusable;
  bool is_final = false;  // the user's own folder has one that cannot be used: no other is taken
  const auto try_all = [&](const std::vector<LibraryCandidate>& candidates) -> std::string {
    for (const LibraryCandidate& candidate : candidates) {
      const LibraryAttempt tried = attempt(candidate);
      if (tried.result == LibraryAttempt::Result::good) return candidate.path;
      if (tried.result == LibraryAttempt::Result::unusable && unusable.empty())
        unusable = tried.why;
      is_final = candidate.place == kGivenPlace && !unusable.empty();
      if (is_final) break;
    }
    return "";
  };
  std::string found = try_all(library_candidates(wanted.file, places));
  if (found.empty() && !is_final && places.python) {
    std::vector<LibraryCandidate> packages;
    for (const std::string& folder : places.python())
      packages.push_back({folder + "/" + wanted.file, kPythonPlace});
    found = try_all(packages);
  }
  if (!found.empty()) return {found, ""};
  if (is_final)
    return {"", fmt::format("{} in {} cannot be used: {}: name another folder there, or unset it",
                            wanted.name, kGivenPlace, unusable)};
  // A file that cannot be used tells more than the places without one.
  if (!unusable.empty()) return {"", fmt::format("{} cannot be used: {}", wanted.name, unusable)};
  return {"", fmt::format("{} ({}) was not found in {}, {}, the loader's path, {} and {}: install "
                          "it (pip install {}), or name its folder in {}",
                          wanted.name, wanted.file, kGivenPlace, places.beside, kToolkitPlace,
                          kPythonPlace, wanted.pip, kGivenPlace)};
}

LibraryAttempt failed_attempt(const LibraryCandidate& candidate, std::string_view complaint) {
  const std::string absent =
      candidate.path + ": cannot open shared object file: No such file or directory";
  if (complaint == absent) return {LibraryAttempt::Result::absent, ""};
  return {LibraryAttempt::Result::unusable, std::string(complaint)};
}

}  // namespace ddprun::trainer::cuda
