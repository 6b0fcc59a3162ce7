// Calls of CUDA's runtime and what becomes of their failures.
#pragma once

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <string>

#include "trainer/cuda/gpu.hpp"

namespace ddprun::trainer::cuda {

/// The GPU of all calls, as messages name it.
class GpuName {
 public:
  GpuName(int number, std::string name) : text_(fmt::format("GPU {} ({})", number, name)) {}
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Throws GpuError unless `code` is success. `call`: the function's name. CUDA reports a failure of
/// work on the GPU at whatever call comes next, so the text says that, too.
inline void check(cudaError_t code, const char* call, const GpuName& gpu) {
  if (code == cudaSuccess) return;
  (void)cudaGetLastError();  // so that the next call does not report it again
  throw GpuError(fmt::format("{} failed on {}: {} ({}); the cause may be earlier work on this GPU",
                             call, gpu.text(), cudaGetErrorString(code), cudaGetErrorName(code)));
}

}  // namespace ddprun::trainer::cuda
