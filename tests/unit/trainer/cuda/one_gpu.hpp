// An emulated GPU and floats in its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tests/emulated_gpu/emulated_gpu.hpp"

namespace ddprun::trainer::test {

struct OneGpu {
  explicit OneGpu(std::uint64_t seed = 0) : gpu({.seed = seed}) {}
  float* floats(std::size_t count) {
    return reinterpret_cast<float*>(gpu.allocate(count * sizeof(float)));
  }
  float first(const float* memory) {
    std::byte* const pinned = gpu.allocate_pinned(sizeof(float));
    gpu.copy_out(cuda::Stream::compute, memory, pinned, sizeof(float));
    gpu.synchronize(cuda::Stream::compute);
    float value = 0;
    std::memcpy(&value, pinned, sizeof value);
    gpu.release_pinned(pinned);
    return value;
  }
  EmulatedGpu gpu;
};

}  // namespace ddprun::trainer::test
