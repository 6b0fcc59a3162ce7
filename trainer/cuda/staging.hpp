// The way of bytes from the host's memory to a GPU's and back, through pinned memory.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "trainer/cuda/gpu.hpp"

namespace ddprun::trainer::cuda {

/// A piece of a copy to the GPU: `offset` bytes behind the place that it goes to.
struct StagedPart {
  std::span<const std::byte> host;
  std::size_t offset = 0;
};

/// A ring of pinned bytes. The host waits only where the bytes of copies that are under way fill
/// it, however small and many they are: so it can be steps ahead. Places of the ring become free in
/// the order in which they were taken, so streams that wait for each other need a ring each.
class Staging {
 public:
  /// The ring is allocated with the first copy.
  explicit Staging(Gpu& gpu) : gpu_(gpu) {}
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// From now on the ring holds two copies of so many bytes: a third one waits for the first alone.
  /// Waits where the ring has to grow. Throws OutOfGpuMemory.
  void reserve(std::size_t bytes);

  /// `host` may be written again at once; the bytes come in the order of the stream.
  void copy_in(Stream stream, std::span<const std::byte> host, void* to);
  /// Copies several parts, by rising offset, as one: bytes between them get any values.
  void copy_in(Stream stream, std::span<const StagedPart> parts, void* to);
  /// Waits.
  void copy_out(Stream stream, const void* from, std::span<std::byte> host);

  /// Unless reserve() asks for more.
  static constexpr std::size_t kRingBytes = std::size_t{8} << 20;
  /// A larger copy goes in pieces, so that one is filled while another one is under way.
  static constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

 private:
  struct Place {
    std::size_t begin = 0;
    std::size_t end = 0;
    Event done{};
  };

  /// The next bytes of the ring, once they are free.
  Place take(std::size_t bytes);
  /// `place` is under way until what the stream was given is done.
  void give(Place place, Stream stream);
  void free_oldest();
  void allocate(std::size_t bytes);

  Gpu& gpu_;
  std::byte* ring_ = nullptr;
  std::size_t ring_bytes_ = 0;
  std::size_t next_ = 0;
  std::deque<Place> under_way_;  // the oldest first
  std::vector<Event> free_events_;
};

}  // namespace ddprun::trainer::cuda
