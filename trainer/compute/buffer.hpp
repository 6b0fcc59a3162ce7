// Memory for floats that never moves or grows: activations, arenas, optimizer moments.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>

namespace ddprun::trainer {

/// `size` floats, zero at first, on a 64-byte boundary (a cache line, an AVX-512 register).
class FloatBuffer {
 public:
  FloatBuffer() = default;
  explicit FloatBuffer(std::size_t size);

  [[nodiscard]] float* data() { return data_.get(); }
  [[nodiscard]] const float* data() const { return data_.get(); }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::span<float> span() { return {data_.get(), size_}; }
  [[nodiscard]] std::span<const float> span() const { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(float* data) const { ::operator delete[](data, std::align_val_t{64}); }
  };
  std::unique_ptr<float[], Free> data_;
  std::size_t size_ = 0;
};

}  // namespace ddprun::trainer
