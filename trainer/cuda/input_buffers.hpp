// The way of a pass's inputs to a GPU, while it computes the pass before.
#pragma once

#include <array>
#include <cstddef>

#include "trainer/compute/inputs.hpp"
#include "trainer/cuda/gpu.hpp"
#include "trainer/cuda/staging.hpp"

namespace ddprun::trainer::cuda {

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
