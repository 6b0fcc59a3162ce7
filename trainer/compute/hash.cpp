#include "trainer/compute/hash.hpp"

#include <array>
#include <cstdio>

#include "trainer/compute/numeric.hpp"

namespace ddprun::trainer {
namespace {

std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
  return hash ^ (hash >> 32);
}

}  // namespace

std::uint64_t hash_floats(std::span<const float> values) {
  std::uint64_t hash = 0x9ae16a3b2f90404fU;
  const std::size_t even = values.size() & ~std::size_t{1};
  for (std::size_t i = 0; i < even; i += 2) {
    const std::uint64_t high = float_bits(values[i + 1]);
    hash = mix(hash, float_bits(values[i]) | high << 32);
  }
  if (even != values.size()) hash = mix(hash, float_bits(values[even]));
  return mix(hash, values.size());
}

std::string hash_text(std::uint64_t hash) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(hash));
  return text.data();
}

}  // namespace ddprun::trainer
