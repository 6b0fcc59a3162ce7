#include "trainer/compute/hash.hpp"

#include <array>
#include <cstdio>

#include "base/hash_bytes.hpp"

namespace ddprun::trainer {

std::uint64_t hash_floats(std::span<const float> values) {
  return hash_bytes(std::as_bytes(values), values.size());
}

std::string hash_text(std::uint64_t hash) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(hash));
  return text.data();
}

}  // namespace ddprun::trainer
