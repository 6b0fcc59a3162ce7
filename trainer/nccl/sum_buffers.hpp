// The memory that NCCL sends and sums: allocated by NCCL where it is to know it.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "trainer/compute/device.hpp"
#include "trainer/cuda/call_watch.hpp"
#include "trainer/nccl/buffer_kind.hpp"
#include "trainer/nccl/nccl_api.hpp"

namespace ddprun::trainer::nccl {

/// Device and library outlive all of it.
class SumBuffers {
 public:
  struct Piece {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
  };

  /// `wanted`: of best_buffers(). `calls`: NcclSettings::calls; it outlives the memory.
  SumBuffers(Device& device, const Functions& call, BufferKind wanted, cuda::CallWatch* calls)
      : device_(&device), call_(&call), calls_(calls), kind_(wanted) {}

  /// As Device::allocate(). The thread has the device's GPU. It is freed after the communicator
  /// that knows it has ended.
  DeviceMemory allocate(std::size_t bytes);
  /// What all of this rank's memory can be known as: plain once NCCL had none to give.
  [[nodiscard]] BufferKind kind() const { return kind_; }
  /// In the order in which it was allocated.
  [[nodiscard]] const std::vector<Piece>& pieces() const { return pieces_; }
  /// Its memory is never freed: a communicator that could not be ended may still use it.
  void keep() { *is_kept_ = true; }

 private:
  Device* device_;
  const Functions* call_;
  cuda::CallWatch* calls_;
  BufferKind kind_;
  std::vector<Piece> pieces_;
  std::shared_ptr<bool> is_kept_ = std::make_shared<bool>(false);
};

}  // namespace ddprun::trainer::nccl
