// Opens shared libraries at run time, and looks their functions up.
#pragma once

#include <dlfcn.h>

#include <functional>
#include <memory>
#include <string>

#include "trainer/cuda/library_search.hpp"

namespace ddprun::trainer::cuda {

/// A library that stays open as long as this.
using LibraryHandle = std::shared_ptr<void>;

/// Looks functions up and remembers the first name that is missing.
class Symbols {
 public:
  explicit Symbols(const LibraryHandle& library) : library_(library) {}

  template <class Function>
  void find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library_.get(), name));
    if (function == nullptr && missing_.empty()) missing_ = name;
  }
  /// One that only newer versions have: null where it is missing.
  template <class Function>
  void find_optional(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library_.get(), name));
  }
  /// Empty: none.
  [[nodiscard]] const std::string& missing() const { return missing_; }

 private:
  LibraryHandle library_;
  std::string missing_;
};

struct FoundLibrary {
  LibraryHandle handle;     ///< null: see `why`
  std::string path;         ///< of the file, as the loader names it
  std::size_t version = 0;  ///< as the library counts
  std::string why;
};

/// A library of NVIDIA's, and what is needed of it.
struct LibraryNeed {
  std::string name;              ///< "cuDNN"
  const char* version_function;  ///< "cudnnGetVersion"
  std::size_t oldest = 0;        ///< version that can be used
  std::string (*text)(std::size_t version);
  /// Calls the version function, which is there.
  std::function<std::size_t(Symbols& symbols)> version;
  /// Looks up all other functions.
  std::function<void(Symbols& symbols)> find;
};

/// One file: `path` is what dlopen takes.
FoundLibrary open_library_file(const std::string& path, const LibraryNeed& need);
/// Searches (library_search.hpp) and opens.
FoundLibrary open_library(const WantedLibrary& wanted, const LibraryPlaces& places,
                          const LibraryNeed& need);

}  // namespace ddprun::trainer::cuda
