// A 64-bit hash of bytes, fast and not cryptographic: it tells weights and data sets apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun {

inline constexpr std::uint64_t kHashStart = 0x9ae16a3b2f90404fU;

/// With h = `start`, eight bytes at a time make one 64-bit word w (little-endian; a shorter end is
/// filled up with zeros): h = (h xor w) * 0x9e3779b97f4a7c15, then h ^= h >> 32; at the end the
/// same once more with w = `count`, the number of values that the bytes are. `start` chains hashes.
std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t count,
                         std::uint64_t start = kHashStart);

/// Computes hash_bytes of bytes that come in pieces of any size.
class BytesHash {
 public:
  explicit BytesHash(std::uint64_t start = kHashStart) : hash_(start) {}
  void add(std::span<const std::byte> bytes);
  /// The hash of all bytes that were added, which are `count` values.
  [[nodiscard]] std::uint64_t end(std::uint64_t count) const;

 private:
  std::uint64_t hash_;
  std::uint64_t word_ = 0;  // of bytes that do not make a whole one yet
  std::size_t word_bytes_ = 0;
};

}  // namespace ddprun
