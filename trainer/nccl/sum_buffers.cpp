#include "trainer/nccl/sum_buffers.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace ddprun::trainer::nccl {

DeviceMemory SumBuffers::allocate(std::size_t bytes) {
  if (kind_ == BufferKind::plain || bytes == 0) return device_->allocate(bytes);
  const MemorySource source{
      .allocate = [call = call_, calls = calls_](std::size_t wanted) -> std::byte* {
        const cuda::CallWatch::Scope scope(calls, "ncclMemAlloc");
        void* memory = nullptr;
        return call->mem_alloc(&memory, wanted) == Status::success ? static_cast<std::byte*>(memory)
                                                                   : nullptr;
      },
      .free =
          [call = call_, calls = calls_, is_kept = is_kept_](std::byte* memory) {
            if (*is_kept) return;
            const cuda::CallWatch::Scope scope(calls, "ncclMemFree");
            (void)call->mem_free(memory);
          }};
  DeviceMemory memory = device_->allocate_from(source, bytes);
  if (memory.data() == nullptr) {
    // The GPU may have enough all the same: NCCL asks for it in another way.
    kind_ = BufferKind::plain;
    return device_->allocate(bytes);
  }
  // Without cuMem functions it is cudaMalloc's.
  if (reinterpret_cast<std::uintptr_t>(memory.data()) % kWindowAlignment != 0)
    kind_ = std::min(kind_, BufferKind::registered);
  pieces_.push_back({memory.data(), bytes});
  return memory;
}

}  // namespace ddprun::trainer::nccl
