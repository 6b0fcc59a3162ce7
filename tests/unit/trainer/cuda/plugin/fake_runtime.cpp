// What the plugin's parts need of CUDA's runtime, without a GPU: memory of the host.
#include "tests/unit/trainer/cuda/plugin/fake_runtime.hpp"

#include <cuda_runtime_api.h>

#include <cstdlib>

using ddprun::trainer::cuda::test::lasting_error;

extern "C" {

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  *memory = std::malloc(bytes);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return lasting_error;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t /*code*/) { return "an error"; }
const char* cudaGetErrorName(cudaError_t /*code*/) { return "cudaErrorOfTheTest"; }

}  // extern "C"
