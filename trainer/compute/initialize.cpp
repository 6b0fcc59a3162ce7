#include "trainer/compute/initialize.hpp"

#include <algorithm>
#include <string>

#include "trainer/compute/philox.hpp"
#include "trainer/model/layout.hpp"

namespace ddprun::trainer {
namespace {

std::uint64_t fnv1a(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint32_t high(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }

}  // namespace

void initialize(const std::vector<Parameter>& parameters, std::span<float> arena,
                std::uint64_t seed) {
  std::fill(arena.begin(), arena.end(), 0.0F);
  std::vector<float> values;
  for (const Parameter& parameter : parameters) {
    const double value = parameter.initial.value;
    values.assign(parameter.count, static_cast<float>(value));
    if (parameter.initial.kind == InitialValues::Kind::uniform) {
      const std::uint64_t name = fnv1a(parameter.name);
      for (std::size_t e = 0; e < parameter.count; ++e) {
        const std::uint64_t block = e / 4;
        const PhiloxBlock words =
            philox({{low(block), high(block), low(name), high(name)}}, low(seed), high(seed));
        const double unit = static_cast<double>(unit_uniform(words.word[e % 4]));
        values[e] = static_cast<float>(value * (2.0 * unit - 1.0));
      }
    }
    import_parameter(parameter, values, arena);
  }
}

}  // namespace ddprun::trainer
