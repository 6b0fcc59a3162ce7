// The way of bytes from the host's memory to a GPU's and back, through pinned memory.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "trainer/cuda/gpu.hpp"

namespace ddprun::trainer::cuda {

/// A ring of pinned pieces: a copy to the GPU waits for the host only where all pieces are on their
/// way.
class Staging {
 public:
  explicit Staging(Gpu& gpu);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// `host` may be written again at once; the bytes come in the order of the stream.
  void copy_in(Stream stream, std::span<const std::byte> host, void* to);
  /// Waits.
  void copy_out(Stream stream, const void* from, std::span<std::byte> host);

 private:
  static constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
  static constexpr int kPieces = 4;
  struct Piece {
    std::byte* memory = nullptr;
    Event done{};
    bool under_way = false;
  };

  /// The next one, once it is free.
  Piece& take();

  Gpu& gpu_;
  std::array<Piece, kPieces> pieces_;
  int next_ = 0;
};

}  // namespace ddprun::trainer::cuda
