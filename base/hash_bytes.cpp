#include "base/hash_bytes.hpp"

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
  std::uint64_t hash = start;
  std::span<const std::byte> bytes_left = bytes;
  std::uint64_t word = 0;
  for (; bytes_left.size() >= kWordBytes; bytes_left = bytes_left.subspan(kWordBytes)) {
    std::memcpy(&word, bytes_left.data(), kWordBytes);
    hash = mix(hash, word);
  }
  if (!bytes_left.empty()) {
    word = 0;
    std::memcpy(&word, bytes_left.data(), bytes_left.size());
    hash = mix(hash, word);
  }
  return mix(hash, count);
}

}  // namespace ddprun
