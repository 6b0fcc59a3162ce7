// libcuda.so.1 as far as train asks it.
#include <unistd.h>

#include <cstddef>
#include <cstdio>

#include "tests/fake_cuda/fake_setting.hpp"

extern "C" {

int cuInit(unsigned /*flags*/) {
  while (fake_setting("FAKE_CUDA_HANGS", 0) != 0) pause();
  return fake_setting("FAKE_CUDA_INIT", 0);
}
int cuDriverGetVersion(int* version) {
  *version = fake_setting("FAKE_CUDA_VERSION", 13000);
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = fake_setting("FAKE_CUDA_GPUS", 1);
  return 0;
}
int cuDeviceGet(int* device, int number) {
  *device = number;
  return 0;
}
int cuDeviceGetName(char* name, int bytes, int device) {
  std::snprintf(name, static_cast<std::size_t>(bytes), "Fake GPU %d", device);
  return 0;
}
int cuDeviceTotalMem_v2(std::size_t* bytes, int /*device*/) {
  *bytes = std::size_t{1} << 34;
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int /*device*/) {
  const int capability = fake_setting("FAKE_CUDA_CAPABILITY", 90);
  *value = attribute == 75 ? capability / 10 : capability % 10;
  return 0;
}
int cuGetErrorString(int /*result*/, const char** text) {
  *text = "fake trouble";
  return 0;
}
}
