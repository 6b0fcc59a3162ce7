// The hash of bytes: the stated formula, and that no byte is left out.
#include "base/hash_bytes.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <set>
#include <vector>

using ddprun::hash_bytes;

namespace {

using Bytes = std::vector<std::uint8_t>;

std::uint64_t hash_of(const Bytes& bytes, std::uint64_t start = ddprun::kHashStart) {
  return hash_bytes(std::as_bytes(std::span(bytes)), bytes.size(), start);
}

}  // namespace

TEST_CASE("the hash of bytes is that of its formula") {
  const auto step = [](std::uint64_t hash, std::uint64_t word) {
    const std::uint64_t product = (hash ^ word) * 0x9e3779b97f4a7c15U;
    return product ^ (product >> 32);
  };
  const std::uint64_t start = 0x9ae16a3b2f90404fU;
  CHECK(hash_of({}) == step(start, 0));
  const Bytes bytes{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  const std::uint64_t whole = step(step(step(start, 0x0807060504030201U), 0x0a09U), 10);
  CHECK(hash_of(bytes) == whole);
  CHECK(hash_of(bytes, 7) == step(step(step(7, 0x0807060504030201U), 0x0a09U), 10));
}

TEST_CASE("every byte and the length of what is hashed count") {
  std::set<std::uint64_t> seen;
  Bytes bytes(21, 0);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = 1;
    seen.insert(hash_of(bytes));
    bytes[i] = 0;
  }
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    seen.insert(hash_of(Bytes(size, 0)));
  }
  CHECK(seen.size() == 21 + 22);
}

TEST_CASE("the number of values counts apart from their bytes") {
  const Bytes bytes(8, 1);
  CHECK(hash_bytes(std::as_bytes(std::span(bytes)), 8) !=
        hash_bytes(std::as_bytes(std::span(bytes)), 2));
}

TEST_CASE("bytes that come in pieces have the hash of the whole") {
  Bytes bytes(61);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(7 * i + 1);
  const auto all = std::as_bytes(std::span(bytes));
  for (std::size_t first = 0; first <= bytes.size(); ++first) {
    for (std::size_t second = first; second <= bytes.size(); ++second) {
      ddprun::BytesHash hash(5);
      hash.add(all.first(first));
      hash.add(all.subspan(first, second - first));
      hash.add(all.subspan(second));
      REQUIRE(hash.end(bytes.size()) == hash_of(bytes, 5));
    }
  }
}
