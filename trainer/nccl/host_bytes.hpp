// Bytes of the host on their way to other hosts: through pinned memory and the GPU's, on the
// communication stream.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "trainer/cuda/gpu.hpp"

namespace ddprun::trainer::nccl {

/// Room for one piece of this rank, and one of each rank. Made when it is first needed.
class HostBytes {
 public:
  HostBytes(cuda::Gpu& gpu, int ranks)
      : gpu_(gpu),
        ranks_(static_cast<std::size_t>(ranks)),
        piece_bytes_(std::max(kPieceBytesMin, kBytes / ranks_)) {}
  ~HostBytes() {
    if (all_ != nullptr) gpu_.release(all_);
    if (mine_ != nullptr) gpu_.release(mine_);
    if (pinned_ != nullptr) gpu_.release_pinned(pinned_);
  }
  HostBytes(const HostBytes&) = delete;
  HostBytes& operator=(const HostBytes&) = delete;

  [[nodiscard]] std::size_t piece_bytes() const { return piece_bytes_; }
  /// Bytes of the GPU's memory that it takes.
  static std::size_t gpu_bytes(int ranks) {
    const auto count = static_cast<std::size_t>(ranks);
    return (1 + count) * std::max(kPieceBytesMin, kBytes / count);
  }

  /// This rank's bytes, in the GPU's memory.
  [[nodiscard]] std::byte* mine() {
    make_room();
    return mine_;
  }
  [[nodiscard]] std::byte* all() { return all_; }

  /// `bytes` to mine(). What was taken before must have arrived.
  void send(std::span<const std::byte> bytes) {
    make_room();
    std::memcpy(pinned_, bytes.data(), bytes.size());
    gpu_.copy_in(cuda::Stream::communication, pinned_, mine_, bytes.size());
  }
  void receive_mine(std::size_t size) {
    gpu_.copy_out(cuda::Stream::communication, mine_, pinned_, size);
  }
  /// One piece of `size` of each rank.
  void receive_all(std::size_t size) {
    gpu_.copy_out(cuda::Stream::communication, all_, pinned_, ranks_ * size);
  }
  /// What was received, once it has arrived.
  void take(std::span<std::byte> bytes, std::size_t at = 0) const {
    std::memcpy(bytes.data(), pinned_ + at, bytes.size());
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{16} << 20;
  static constexpr std::size_t kPieceBytesMin = 4096;

  void make_room() {
    if (mine_ != nullptr) return;
    mine_ = gpu_.allocate(piece_bytes_);
    all_ = gpu_.allocate(ranks_ * piece_bytes_);
    pinned_ = gpu_.allocate_pinned(ranks_ * piece_bytes_);
  }

  cuda::Gpu& gpu_;
  const std::size_t ranks_;
  const std::size_t piece_bytes_;
  std::byte* mine_ = nullptr;
  std::byte* all_ = nullptr;
  std::byte* pinned_ = nullptr;
};

}  // namespace ddprun::trainer::nccl
