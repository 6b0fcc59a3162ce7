// Where CUDA's libraries are looked for, and what is said when none can be used. Pure: what opens a
// file, or asks Python, is the caller's.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::trainer::cuda {

struct WantedLibrary {
  std::string name;  ///< "cuDNN 9"
  std::string file;  ///< "libcudnn.so.9"
  std::string pip;   ///< the package that has it: "nvidia-cudnn-cu13"
};

struct LibraryPlaces {
  std::string given;                  ///< DDPRUN_CUDA_PATH: folders, separated by colons
  std::string beside;                 ///< train's folder
  std::vector<std::string> toolkits;  ///< CUDA_HOME, CUDA_PATH, /usr/local/cuda
  /// The folders nvidia/*/lib of python3's packages: asked for when nothing else has the library.
  std::function<std::vector<std::string>()> python;
};

/// As the environment has it.
using EnvironmentLookup = std::function<const char*(const char*)>;
LibraryPlaces library_places(const EnvironmentLookup& lookup, std::string beside,
                             std::function<std::vector<std::string>()> python);

/// What dlopen is given: a path, or a bare name for the loader's own search.
struct LibraryCandidate {
  std::string path;
  std::string place;  ///< in words: "DDPRUN_CUDA_PATH", "the CUDA toolkit"
};

/// In order, all but Python's.
std::vector<LibraryCandidate> library_candidates(const std::string& file,
                                                 const LibraryPlaces& places);

struct LibraryAttempt {
  enum class Result {
    good,
    absent,    ///< no such file
    unusable,  ///< damaged, too old, lacks a function: `why`
  } result = Result::absent;
  std::string why;
};

struct LibrarySearch {
  std::string path;  ///< of the candidate that is good; empty: see `why`
  std::string why;   ///< one line that names the library, the places, and what to do
};

/// Tries the candidates one after the other. What cannot be used is passed over, except in the
/// folders of DDPRUN_CUDA_PATH: a folder that was named is meant, so the search ends with the
/// reason.
LibrarySearch search_library(const WantedLibrary& wanted, const LibraryPlaces& places,
                             const std::function<LibraryAttempt(const LibraryCandidate&)>& attempt);

/// Absent where dlopen's complaint is only that there is no file of this name.
LibraryAttempt failed_attempt(const LibraryCandidate& candidate, std::string_view complaint);

}  // namespace ddprun::trainer::cuda
