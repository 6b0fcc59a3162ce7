// What bench_logs and its workers tell each other, in a file that all of them map.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

namespace ddprun::bench {

inline constexpr int kRanksMax = 64;

struct Board {
  std::atomic<int> ready{0};     ///< workers that wait for `start`
  std::atomic<int> start{0};     ///< 1: go
  std::atomic<int> finished{0};  ///< workers that have printed everything
  std::atomic<int> leave{0};     ///< 1: they may exit
  std::int64_t began_ns[kRanksMax];
  std::int64_t ended_ns[kRanksMax];
};

inline std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

/// Maps the file, which is made where it is missing; null: that failed.
inline Board* map_board(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(Board)) != 0) return nullptr;
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return memory == MAP_FAILED ? nullptr : static_cast<Board*>(memory);
}

/// Every line has the same length: rank, number, then filling, or the time in nanoseconds.
inline constexpr std::size_t kLineHead = 32;

}  // namespace ddprun::bench
