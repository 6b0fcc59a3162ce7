#include "trainer/compute/buffer.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/hash_bytes.hpp"

namespace ddprun::trainer {
namespace {

constexpr std::align_val_t kBoundary{64};

}  // namespace

std::byte* allocate_memory(std::size_t bytes) {
  void* const memory = ::operator new(bytes, kBoundary, std::nothrow);
  if (memory == nullptr) throw OutOfMemory(bytes);
  return static_cast<std::byte*>(memory);
}

void free_memory(void* memory) { ::operator delete(memory, kBoundary); }

FloatBuffer::FloatBuffer(std::size_t size)
    : data_(size == 0 ? nullptr : reinterpret_cast<float*>(allocate_memory(size * sizeof(float)))),
      size_(size) {
  std::fill_n(data_.get(), size, 0.0F);
}

std::uint64_t hash_floats(std::span<const float> values) {
  return hash_bytes(std::as_bytes(values), values.size());
}

std::string hash_text(std::uint64_t hash) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(hash));
  return text.data();
}

}  // namespace ddprun::trainer
