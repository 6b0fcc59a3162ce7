#include "rendezvous/store/reply_buffer.hpp"

#include <algorithm>

namespace ddprun::rdzv {
namespace {

/// Memory that an empty buffer keeps.
constexpr std::size_t kKeptBytesMax = 256 * 1024;
/// Sent bytes that are not worth the moving of the others.
constexpr std::size_t kSentBytesMax = 64 * 1024;

iovec piece(const std::string& bytes, std::size_t begin, std::size_t end) {
  return {const_cast<char*>(bytes.data()) + begin, end - begin};
}

}  // namespace

void ReplyBuffer::append_value(const SharedValue& value) {
  const std::size_t shared_min =
      bytes_.size() < kLargeReplyBytes ? kSharedValueBytesMin : kSharedValueBytesMinInLarge;
  if (value->size() < shared_min) {
    append_bytes(*value);
    return;
  }
  append_u64(value->size());
  shared_.push_back({bytes_.size(), value, 0});
  shared_bytes_ += value->size();
}

std::size_t ReplyBuffer::gather(std::span<iovec> pieces) const {
  std::size_t filled = 0;
  std::size_t position = sent_;
  for (const Shared& shared : shared_) {
    if (filled == pieces.size()) return filled;
    if (position < shared.position) {
      pieces[filled++] = piece(bytes_, position, shared.position);
      position = shared.position;
      if (filled == pieces.size()) return filled;
    }
    pieces[filled++] = piece(*shared.value, shared.sent, shared.value->size());
  }
  if (filled < pieces.size() && position < bytes_.size()) {
    pieces[filled++] = piece(bytes_, position, bytes_.size());
  }
  return filled;
}

void ReplyBuffer::consume(std::size_t length) {
  if (shared_.empty() && length == bytes_.size() - sent_) return clear();
  while (length > 0) {
    const std::size_t small_end = shared_.empty() ? bytes_.size() : shared_.front().position;
    const std::size_t small = std::min(length, small_end - sent_);
    sent_ += small;
    length -= small;
    if (length == 0 || shared_.empty()) break;
    Shared& shared = shared_.front();
    const std::size_t large = std::min(length, shared.value->size() - shared.sent);
    shared.sent += large;
    shared_bytes_ -= large;
    length -= large;
    if (shared.sent == shared.value->size()) shared_.pop_front();
  }
  if (empty()) {
    clear();
  } else if (sent_ >= kSentBytesMax && sent_ >= bytes_.size() / 2) {
    // A reader that is always a little behind would otherwise keep all that it ever read.
    bytes_.erase(0, sent_);
    for (Shared& shared : shared_) shared.position -= sent_;
    sent_ = 0;
  }
}

void ReplyBuffer::clear() {
  bytes_.clear();
  if (bytes_.capacity() > kKeptBytesMax) bytes_.shrink_to_fit();
  if (!shared_.empty()) shared_.clear();
  sent_ = 0;
  shared_bytes_ = 0;
}

}  // namespace ddprun::rdzv
