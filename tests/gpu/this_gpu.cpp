#include <cstdlib>
#include <string>

#include "tests/support/skip.hpp"
#include "tests/unit/trainer/layers/layer_device.hpp"
#include "trainer/cuda/cuda_device.hpp"
#include "trainer/run/gpus.hpp"

namespace ddprun::trainer::test {
namespace {

struct ThisGpu {
  std::unique_ptr<cuda::Gpu> gpu;
  std::unique_ptr<Device> device;
};

ThisGpu open_this_gpu(bool tf32) {
  const char* const folder = std::getenv("DDPRUN_TEST_BIN");
  if (folder == nullptr) ddprun::test::skip("DDPRUN_TEST_BIN does not name the folder of train");
  FoundGpu found = MachineGpus(folder).find({.request = {}, .tf32 = tf32});
  if (!found.gpu) ddprun::test::skip(found.why_not);
  ThisGpu one{.gpu = std::move(found.gpu), .device = nullptr};
  one.device = cuda::make_cuda_device(*one.gpu);
  return one;
}

}  // namespace

Device& device() {
  static const ThisGpu one = open_this_gpu(false);
  return *one.device;
}

Device& tf32_device() {
  static const ThisGpu one = open_this_gpu(true);
  return *one.device;
}

}  // namespace ddprun::trainer::test
