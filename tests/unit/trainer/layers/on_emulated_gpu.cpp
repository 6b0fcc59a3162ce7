#include "tests/emulated_gpu/emulated_gpu.hpp"
#include "tests/unit/trainer/layers/layer_device.hpp"
#include "trainer/cuda/cuda_device.hpp"

namespace ddprun::trainer::test {

Device& device() {
  static EmulatedGpu gpu;
  static const std::unique_ptr<Device> one = cuda::make_cuda_device(gpu);
  return *one;
}

Device& tf32_device() {
  static EmulatedGpu gpu({.tf32 = true});
  static const std::unique_ptr<Device> one = cuda::make_cuda_device(gpu);
  return *one;
}

Libraries libraries() { return {.choose_by_shape = false, .round_weight_gradients = true}; }

}  // namespace ddprun::trainer::test
