// Events of a GPU that are used again: making one costs a call of the driver.
#pragma once

#include <vector>

#include "trainer/cuda/gpu.hpp"

namespace ddprun::trainer::nccl {

class EventPool {
 public:
  explicit EventPool(cuda::Gpu& gpu) : gpu_(gpu) {}

  cuda::Event take() {
    if (free_.empty()) return gpu_.make_event();
    const cuda::Event event = free_.back();
    free_.pop_back();
    return event;
  }
  /// One that has come, or that nobody waits for any more.
  void give_back(cuda::Event event) { free_.push_back(event); }

 private:
  cuda::Gpu& gpu_;
  std::vector<cuda::Event> free_;
};

}  // namespace ddprun::trainer::nccl
