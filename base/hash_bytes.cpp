#include "base/hash_bytes.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace ddprun {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as they lie in memory");

constexpr std::size_t kWordBytes = sizeof(std::uint64_t);

std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
  return hash ^ (hash >> 32);
}

}  // namespace

std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t count,
                         std::uint64_t start) {
  BytesHash hash(start);
  hash.add(bytes);
  return hash.end(count);
}

void BytesHash::add(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;  // memcpy takes no null pointer
  std::span<const std::byte> bytes_left = bytes;
  if (word_bytes_ > 0) {
    const std::size_t taken = std::min(kWordBytes - word_bytes_, bytes_left.size());
    std::uint64_t more = 0;
    std::memcpy(&more, bytes_left.data(), taken);
    word_ |= more << (8 * word_bytes_);
    word_bytes_ += taken;
    bytes_left = bytes_left.subspan(taken);
    if (word_bytes_ < kWordBytes) return;
    hash_ = mix(hash_, word_);
    word_bytes_ = 0;
  }
  std::uint64_t word = 0;
  std::uint64_t hash = hash_;
  for (; bytes_left.size() >= kWordBytes; bytes_left = bytes_left.subspan(kWordBytes)) {
    std::memcpy(&word, bytes_left.data(), kWordBytes);
    hash = mix(hash, word);
  }
  hash_ = hash;
  word_ = 0;
  word_bytes_ = bytes_left.size();
  if (word_bytes_ > 0) std::memcpy(&word_, bytes_left.data(), word_bytes_);
}

std::uint64_t BytesHash::end(std::uint64_t count) const {
  return mix(word_bytes_ > 0 ? mix(hash_, word_) : hash_, count);
}

}  // namespace ddprun
