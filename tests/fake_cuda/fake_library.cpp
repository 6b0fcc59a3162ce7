// cuDNN and cuBLASLt as far as their versions.
#include <cstddef>

#include "tests/fake_cuda/fake_setting.hpp"

extern "C" {

std::size_t cudnnGetVersion() {
  return static_cast<std::size_t>(fake_setting("FAKE_CUDNN_VERSION", 91900));
}
std::size_t cublasLtGetVersion() {
  return static_cast<std::size_t>(fake_setting("FAKE_CUBLASLT_VERSION", 130100));
}
}
