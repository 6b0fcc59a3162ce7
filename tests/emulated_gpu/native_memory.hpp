// How a library allocates memory of an emulated GPU by itself, as NCCL does by CUDA. In a shared
// library, so that programs and the libraries that they open have it in common.
#pragma once

#include <cstddef>
#include <functional>

namespace ddprun::trainer::test {

struct NativeMemory {
  /// On a boundary of 4096 bytes; null: there is not enough.
  std::function<std::byte*(std::size_t bytes)> allocate;
  /// Waits for nothing. Throws GpuError where the GPU still has work.
  std::function<void(std::byte* memory)> release;
};

/// Memory of the GPU that this thread made last, as of cudaGetDevice(); null: it has none.
NativeMemory*& native_memory();

}  // namespace ddprun::trainer::test
