#include <cstdlib>
#include <string>

#include "tests/support/skip.hpp"
#include "tests/unit/trainer/layers/layer_device.hpp"
#include "trainer/cuda/cuda_device.hpp"
#include "trainer/run/plan/gpus.hpp"

namespace ddprun::trainer::test {
namespace {

struct ThisGpu {
  std::unique_ptr<cuda::Gpu> gpu;
  std::unique_ptr<Device> device;
};

/// Never destroyed: a static object ends after the static objects of libraries that were opened
/// later, and cuDNN and CUDA's runtime have some. The driver cleans up behind the process.
ThisGpu& open_this_gpu(bool tf32) {
  const char* const folder = std::getenv("DDPRUN_TEST_BIN");
  if (folder == nullptr) ddprun::test::skip("DDPRUN_TEST_BIN does not name the folder of train");
  FoundGpu found = MachineGpus(folder).find({.request = {}, .tf32 = tf32});
  if (!found.gpu) ddprun::test::skip(found.why_not);
  auto one = std::make_unique<ThisGpu>();
  one->gpu = std::move(found.gpu);
  one->device = cuda::make_cuda_device(*one->gpu);
  return *one.release();
}

}  // namespace

Device& device() {
  static const ThisGpu& one = open_this_gpu(false);
  return *one.device;
}

Device& tf32_device() {
  static const ThisGpu& one = open_this_gpu(true);
  return *one.device;
}

Libraries libraries() { return {.choose_by_shape = true, .round_weight_gradients = true}; }

}  // namespace ddprun::trainer::test
