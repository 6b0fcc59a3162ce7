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
  /// Empty: none.
  [[nodiscard]] const std::string& missing() const { return missing_; }

 private:
  LibraryHandle library_;
  std::string missing_;
};

struct FoundLibrary {
  LibraryHandle handle;  ///< null: see `why`
  std::string path;      ///< of the file, as the loader names it
  std::string why;
};

/// Searches (library_search.hpp) and opens. `look`: takes what it needs of an opened library and
/// gives why it cannot be used; empty: it can.
FoundLibrary open_library(const WantedLibrary& wanted, const LibraryPlaces& places,
                          const std::function<std::string(const LibraryHandle&)>& look);

}  // namespace ddprun::trainer::cuda
