// cuDNN, cuBLASLt and NCCL as far as their versions.
#include <cstddef>

#include "tests/fake_cuda/fake_setting.hpp"

extern "C" {

std::size_t cudnnGetVersion() {
  return static_cast<std::size_t>(fake_setting("FAKE_CUDNN_VERSION", 91900));
}
int ncclGetVersion(int* version) {
  *version = fake_setting("FAKE_NCCL_VERSION", 22809);
  return 0;
}
std::size_t cublasLtGetVersion() {
  return static_cast<std::size_t>(fake_setting("FAKE_CUBLASLT_VERSION", 130100));
}
}
