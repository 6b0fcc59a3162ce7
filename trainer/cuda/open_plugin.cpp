#include "trainer/cuda/open_plugin.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstring>

#include "trainer/cuda/plugin_id.hpp"  // generated, see CMakeLists.txt

namespace ddprun::trainer::cuda {

OpenedPlugin open_plugin(const std::string& folder) {
  OpenedPlugin result{.plugin = {}, .path = folder + "/" + kPluginFile, .why_not = {}};
  if (::access(result.path.c_str(), F_OK) != 0) {
    result.why_not = fmt::format(
        "{} is missing: build train with CUDA and cuDNN and install both files together, "
        "or use --device=cpu",
        result.path);
    return result;
  }
  void* const handle = dlopen(result.path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    result.why_not = fmt::format("{} cannot be opened: {}", kPluginFile, dlerror());
    return result;
  }
  const auto function = reinterpret_cast<PluginFunction>(dlsym(handle, kPluginSymbol));
  const char* const id = function == nullptr ? nullptr : function(kPluginId, &result.plugin);
  if (id == nullptr) {
    result.why_not =
        fmt::format("{} is no plugin of train (it has no function {}): install train again",
                    result.path, kPluginSymbol);
  } else if (std::strcmp(id, kPluginId) != 0) {
    result.why_not = fmt::format(
        "{} is of another build ({}) than train ({}): build or install "
        "both together",
        result.path, id, kPluginId);
  }
  return result;
}

}  // namespace ddprun::trainer::cuda
