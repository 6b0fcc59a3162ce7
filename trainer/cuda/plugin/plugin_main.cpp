// The one function that libtrain_cuda.so exports.
#include <cuda_runtime_api.h>

#include <cstring>

#include "trainer/cuda/plugin.hpp"
#include "trainer/cuda/plugin/cuda_gpu.hpp"
#include "trainer/cuda/plugin/cudnn.hpp"
#include "trainer/cuda/plugin/matrix_products.hpp"
#include "trainer/cuda/plugin_id.hpp"  // generated, see trainer/cuda/CMakeLists.txt

namespace ddprun::trainer::cuda {
namespace {

template <class Library>
OpenedLibrary opened(const Library& one, const char* name) {
  if (!one.library.handle) return {.name = name, .path = {}, .why = one.library.why};
  return {.name = one.version_text(), .path = one.library.path, .why = {}};
}

std::vector<OpenedLibrary> libraries(const LibraryPlaces& places) {
  return {opened(open_cublaslt(places), "cuBLASLt"), opened(open_cudnn(places), "cuDNN")};
}

}  // namespace
}  // namespace ddprun::trainer::cuda

extern "C" __attribute__((visibility("default"))) const char* ddprun_train_cuda(
    const char* build, ddprun::trainer::cuda::Plugin* plugin) {
  namespace cuda = ddprun::trainer::cuda;
  if (std::strcmp(build, cuda::kPluginId) == 0)
    *plugin = {.cuda = CUDART_VERSION,
               .architectures = DDPRUN_CUDA_ARCHITECTURES,
               .open = cuda::make_cuda_gpu,
               .libraries = cuda::libraries};
  return cuda::kPluginId;
}
static_assert(std::is_same_v<decltype(&ddprun_train_cuda), ddprun::trainer::cuda::PluginFunction>);
