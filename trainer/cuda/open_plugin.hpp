// Opens libtrain_cuda.so and makes sure that it is of this build.
#pragma once

#include <string>

#include "trainer/cuda/plugin.hpp"

namespace ddprun::trainer::cuda {

struct OpenedPlugin {
  Plugin plugin;
  std::string path;
  std::string why_not;  ///< one line; empty: it can be used
};

/// `folder`: train's. The plugin stays open for ever.
OpenedPlugin open_plugin(const std::string& folder);

}  // namespace ddprun::trainer::cuda
