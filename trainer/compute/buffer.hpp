// Memory for floats that never moves or grows: activations, arenas, optimizer moments. And a 64-bit
// hash of floats: what the final table prints to show that two runs ended with the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>

namespace ddprun::trainer {

/// The system refused memory.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(std::size_t bytes) : bytes_(bytes) {}
  [[nodiscard]] const char* what() const noexcept override { return "out of memory"; }
  /// That were asked for, in one piece.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_;
};

/// So many bytes of the host, not initialised, on a 64-byte boundary (a cache line, an AVX-512
/// register); free_memory() gives them back. Throws OutOfMemory.
std::byte* allocate_memory(std::size_t bytes);
void free_memory(void* memory);

/// `size` floats, zero at first, on a 64-byte boundary.
class FloatBuffer {
 public:
  FloatBuffer() = default;
  /// Throws OutOfMemory.
  explicit FloatBuffer(std::size_t size);

  [[nodiscard]] float* data() { return data_.get(); }
  [[nodiscard]] const float* data() const { return data_.get(); }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::span<float> span() { return {data_.get(), size_}; }
  [[nodiscard]] std::span<const float> span() const { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(float* data) const { free_memory(data); }
  };
  std::unique_ptr<float[], Free> data_;
  std::size_t size_ = 0;
};

/// hash_bytes() (base/hash_bytes.hpp) of the floats, counted as floats. Of the bytes, not of the
/// values: 0.0 and -0.0 differ.
std::uint64_t hash_floats(std::span<const float> values);

/// Sixteen hexadecimal digits, as printed everywhere.
std::string hash_text(std::uint64_t hash);

}  // namespace ddprun::trainer
