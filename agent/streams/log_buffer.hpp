// Bytes on their way from a worker to a file or the console. A string would fill its room with
// zeroes before anything is read into it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "base/byte_output.hpp"

namespace ddprun::agent {

// Sizes that the parts of the log path share.

/// A line longer than this is given in pieces.
inline constexpr std::size_t kLineBytesMax = 64 * 1024;
/// What is read from a worker at once, and about what goes to the console at once.
inline constexpr std::size_t kLogBufferBytes = 512 * 1024;
/// Less than this is copied into a buffer of its size, rather than given away in one of the above.
inline constexpr std::size_t kSmallReadBytes = 16 * 1024;

inline constexpr std::size_t kTailLines = 20;          ///< of stderr, kept for the report
inline constexpr std::size_t kTailLineBytesMax = 400;  ///< a longer one is shortened there

static_assert(kLogBufferBytes % kLineBytesMax == 0);
// A whole buffer read means a pipe that fills up: no time to rest.
static_assert(kLogBufferBytes >= kBusyPipeBytes / 4);

class LogBuffer {
 public:
  LogBuffer() = default;
  explicit LogBuffer(std::string_view text) { append(text); }
  LogBuffer(LogBuffer&& other) noexcept { *this = std::move(other); }
  LogBuffer& operator=(LogBuffer&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }

  [[nodiscard]] std::string_view view() const { return {data_.get(), size_}; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  void clear() { size_ = 0; }

  /// Room for so many bytes behind the end; `grow` says how many were put there.
  char* room(std::size_t bytes) {
    if (size_ + bytes > capacity_) reallocate(size_ + bytes);
    return data_.get() + size_;
  }
  void grow(std::size_t bytes) { size_ += bytes; }

  void append(std::string_view text) {
    if (text.empty()) return;
    std::memcpy(room(text.size()), text.data(), text.size());
    size_ += text.size();
  }
  void push_back(char c) {
    *room(1) = c;
    ++size_;
  }

 private:
  void reallocate(std::size_t bytes) {
    const std::size_t capacity = std::max(bytes, capacity_ * 2);
    auto data = std::make_unique_for_overwrite<char[]>(capacity);
    if (size_ > 0) std::memcpy(data.get(), data_.get(), size_);
    data_ = std::move(data);
    capacity_ = capacity;
  }

  std::unique_ptr<char[]> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace ddprun::agent
