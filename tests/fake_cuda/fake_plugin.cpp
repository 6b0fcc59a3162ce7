// libtrain_cuda.so of this build or, if the environment says so, of another one. Its GPU fails.
#include <cstring>

#include "tests/fake_cuda/fake_setting.hpp"
#include "trainer/cuda/plugin.hpp"
#include "trainer/cuda/plugin_id.hpp"

namespace cuda = ddprun::trainer::cuda;

extern "C" const char* ddprun_train_cuda(const char* build, cuda::Plugin* plugin) {
  if (fake_setting("FAKE_PLUGIN_OTHER", 0) != 0) return "0.0.1-other";
  if (std::strcmp(build, cuda::kPluginId) != 0) return cuda::kPluginId;
  plugin->cuda = 13000;
  plugin->architectures = "80-real,90";
  plugin->open = [](const cuda::OpenGpu& settings) -> std::unique_ptr<cuda::Gpu> {
    throw cuda::GpuError("cudaSetDevice failed on GPU " + std::to_string(settings.number));
  };
  plugin->libraries = [](const cuda::LibraryPlaces& /*places*/) {
    return std::vector<cuda::OpenedLibrary>{{.name = "cuDNN 9.9.9", .path = "/fake", .why = {}}};
  };
  return cuda::kPluginId;
}
