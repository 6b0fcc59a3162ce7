// How much memory a device has handed out: now, and at most at one time.
#pragma once

#include <atomic>
#include <cstddef>

namespace ddprun::trainer {

/// In bytes. Calls may come from several threads.
class MemoryCount {
 public:
  void add(std::size_t bytes) {
    const std::size_t now = now_.fetch_add(bytes) + bytes;
    std::size_t peak = peak_.load();
    while (peak < now && !peak_.compare_exchange_weak(peak, now)) {
    }
  }
  void remove(std::size_t bytes) { now_.fetch_sub(bytes); }
  [[nodiscard]] std::size_t peak() const { return peak_.load(); }

 private:
  std::atomic<std::size_t> now_ = 0;
  std::atomic<std::size_t> peak_ = 0;
};

}  // namespace ddprun::trainer
