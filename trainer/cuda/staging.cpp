#include "trainer/cuda/staging.hpp"

#include <algorithm>
#include <cstring>

namespace ddprun::trainer::cuda {

Staging::Staging(Gpu& gpu) : gpu_(gpu) {
  for (Piece& piece : pieces_) {
    piece.memory = gpu_.allocate_pinned(kPieceBytes);
    piece.done = gpu_.make_event();
  }
}

Staging::~Staging() {
  for (const Piece& piece : pieces_) gpu_.release_pinned(piece.memory);
}

Staging::Piece& Staging::take() {
  Piece& piece = pieces_[static_cast<std::size_t>(next_)];
  next_ = (next_ + 1) % kPieces;
  if (piece.under_way) gpu_.synchronize(piece.done);
  piece.under_way = false;
  return piece;
}

void Staging::copy_in(Stream stream, std::span<const std::byte> host, void* to) {
  auto* target = static_cast<std::byte*>(to);
  while (!host.empty()) {
    Piece& piece = take();
    const std::size_t bytes = std::min(host.size(), kPieceBytes);
    std::memcpy(piece.memory, host.data(), bytes);
    gpu_.copy_in(stream, piece.memory, target, bytes);
    gpu_.record(piece.done, stream);
    piece.under_way = true;
    host = host.subspan(bytes);
    target += bytes;
  }
}

void Staging::copy_out(Stream stream, const void* from, std::span<std::byte> host) {
  const auto* source = static_cast<const std::byte*>(from);
  // One piece is read by the host while the GPU fills the next one.
  struct Arriving {
    Piece* piece = nullptr;
    std::span<std::byte> to;
  } arriving;
  const auto arrive = [&] {
    if (arriving.piece == nullptr) return;
    gpu_.synchronize(arriving.piece->done);
    arriving.piece->under_way = false;
    std::memcpy(arriving.to.data(), arriving.piece->memory, arriving.to.size());
  };
  while (!host.empty()) {
    Piece& piece = take();
    const std::size_t bytes = std::min(host.size(), kPieceBytes);
    gpu_.copy_out(stream, source, piece.memory, bytes);
    gpu_.record(piece.done, stream);
    piece.under_way = true;
    arrive();
    arriving = {&piece, host.first(bytes)};
    host = host.subspan(bytes);
    source += bytes;
  }
  arrive();
}

}  // namespace ddprun::trainer::cuda
