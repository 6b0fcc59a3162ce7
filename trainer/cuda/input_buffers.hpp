// The way of bytes from the host's memory to a GPU's and back, through pinned memory, and that of a
// pass's inputs while the GPU computes the pass before.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "trainer/compute/inputs.hpp"
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

/// Two buffers of the GPU's memory, used by turns. The copy stream fills one with bytes, once the
/// pass before the last has taken its inputs from there: with copies, and with samples that it
/// gathers from sets in the GPU's memory. The compute stream brings them to their
/// places: a captured pass reads the same ones each time. The host's side of the copies is a ring
/// of their own, with room for two passes: the host prepares a pass as soon as the copy of the last
/// but one is done, up to four passes ahead of the compute stream.
class InputBuffers {
 public:
  /// `gpu` outlives it.
  explicit InputBuffers(Gpu& gpu);
  ~InputBuffers();
  InputBuffers(const InputBuffers&) = delete;
  InputBuffers& operator=(const InputBuffers&) = delete;

  /// What the compute stream is given from now on finds the inputs. The host's memory may be
  /// written again at once. Throws OutOfGpuMemory where a buffer has to grow.
  void feed(const Inputs& inputs);
  /// To the memory of a set, which nothing but a feed() after it reads.
  void copy_samples_in(std::span<const std::byte> host, std::byte* to) {
    staging_.copy_in(Stream::copy, host, to);
  }

  /// Bytes of the GPU's memory that the buffers take.
  [[nodiscard]] std::size_t bytes() const { return buffers_[0].bytes + buffers_[1].bytes; }

 private:
  struct Buffer {
    std::byte* memory = nullptr;
    std::size_t bytes = 0;
    Event filled{};
    Event taken{};  // what the compute stream reads of it
  };

  void grow(Buffer& buffer, std::size_t bytes);

  Gpu& gpu_;
  Staging staging_;
  std::array<Buffer, 2> buffers_;
  std::size_t next_ = 0;
};

}  // namespace ddprun::trainer::cuda
