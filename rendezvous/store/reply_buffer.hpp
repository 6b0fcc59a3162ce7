// Replies on their way to one client. Small ones are copied one behind the other, so that one send
// takes them all; large values are shared with the key map, so that a thousand readers of one value
// cost one value.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "proto/c10d_write.hpp"

namespace ddprun::rdzv {

/// A value in the map. What shares it must not change it; the map copies before it writes to a
/// shared one.
using SharedValue = std::shared_ptr<std::string>;

/// Values from this size on are shared instead of copied.
inline constexpr std::size_t kSharedValueBytesMin = 4096;
/// Values from this size on are shared in a reply that is large already: MULTI_GET may name one
/// value 131,072 times.
inline constexpr std::size_t kSharedValueBytesMinInLarge = 256;
inline constexpr std::size_t kLargeReplyBytes = 256 * 1024;

class ReplyBuffer {
 public:
  void append_u8(std::uint8_t value) { bytes_.push_back(static_cast<char>(value)); }
  void append_u32(std::uint32_t value) { proto::c10d::append_u32(bytes_, value); }
  void append_u64(std::uint64_t value) { proto::c10d::append_u64(bytes_, value); }
  void append_i64(std::int64_t value) { append_u64(static_cast<std::uint64_t>(value)); }
  /// A length and bytes; these are copied.
  void append_bytes(std::string_view bytes) { proto::c10d::append_bytes(bytes_, bytes); }
  /// A length and a value of the map.
  void append_value(const SharedValue& value);

  [[nodiscard]] bool empty() const { return size() == 0; }
  /// Bytes that are still to be sent.
  [[nodiscard]] std::size_t size() const { return bytes_.size() - sent_ + shared_bytes_; }

  /// All that is to be sent, if it lies in one piece; else nothing.
  [[nodiscard]] std::string_view contiguous() const {
    return shared_.empty() ? std::string_view(bytes_).substr(sent_) : std::string_view();
  }
  /// Fills `pieces` with what is to be sent next, in order. Returns how many were filled; at least
  /// one unless empty.
  std::size_t gather(std::span<iovec> pieces) const;
  /// Forgets the first `length` bytes, which have been sent.
  void consume(std::size_t length);
  /// Empties it and keeps the memory for the next reply, within reason.
  void clear();

 private:
  /// A shared value that comes behind the first `position` bytes of `bytes_`.
  struct Shared {
    std::size_t position;
    SharedValue value;
    std::size_t sent;
  };

  std::string bytes_;
  std::size_t sent_ = 0;  ///< of bytes_
  std::deque<Shared> shared_;
  std::size_t shared_bytes_ = 0;  ///< of shared_, still to be sent
};

}  // namespace ddprun::rdzv
