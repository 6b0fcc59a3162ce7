// What libtrain_cuda.so gives to train: a GPU behind gpu.hpp. It is opened at run time, so that
// train starts on machines without CUDA.
//
// It exports one C function. The interface is C++ (gpu.hpp): both sides must be of one build, which
// they compare before they use anything else of each other.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/cuda/gpu.hpp"
#include "trainer/cuda/library_search.hpp"

namespace ddprun::trainer::cuda {

/// The plugin's file, beside train.
inline constexpr const char* kPluginFile = "libtrain_cuda.so";
/// The exported function, a PluginFunction.
inline constexpr const char* kPluginSymbol = "ddprun_train_cuda";

struct OpenGpu {
  int number = 0;             ///< among the visible ones
  bool deterministic = true;  ///< false: also algorithms with bits that change from run to run
  bool tf32 = false;  ///< products and convolutions of floats may round their factors to tf32
  LibraryPlaces places;
};

struct OpenedLibrary {
  std::string name;  ///< "cuDNN 9.19.0", or "cuDNN" where it cannot be opened
  std::string path;  ///< of its file; empty: see `why`
  std::string why;
};

/// The plugin's functions; valid only between equal builds.
struct Plugin {
  int cuda = 0;               ///< version that it was built with: 13000
  std::string architectures;  ///< what its kernels were built for: "80-real,90"
  std::unique_ptr<Gpu> (*open)(const OpenGpu& settings) = nullptr;  ///< as make_cuda_gpu()
  /// What it works with, opened to see.
  std::vector<OpenedLibrary> (*libraries)(const LibraryPlaces& places) = nullptr;
};

/// "13.0" of 13000.
inline std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version / 10 % 100);
}

/// Gives the plugin's build id. Fills `plugin` if that equals `build`.
using PluginFunction = const char* (*)(const char* build, Plugin* plugin);

}  // namespace ddprun::trainer::cuda
