#include "trainer/compute/initialize.hpp"

#include <algorithm>
#include <cmath>
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

/// Four words for each block of a parameter's elements.
class ParameterWords {
 public:
  ParameterWords(const std::string& name, std::uint64_t seed) : name_(fnv1a(name)), seed_(seed) {}
  [[nodiscard]] PhiloxBlock block(std::uint64_t index) const {
    return philox({{low(index), high(index), low(name_), high(name_)}}, low(seed_), high(seed_));
  }

 private:
  std::uint64_t name_, seed_;
};

double uniform(const ParameterWords& words, std::size_t element) {
  const PhiloxBlock block = words.block(element / 4);
  return 2.0 * static_cast<double>(unit_uniform(block.word[element % 4])) - 1.0;
}

double normal(const ParameterWords& words, std::size_t element) {
  constexpr double kRange = 4294967296.0;  // 2^32
  constexpr double kTurn = 6.283185307179586;
  const PhiloxBlock block = words.block(element / 2);
  const double a = block.word[2 * (element % 2)];
  const double b = block.word[2 * (element % 2) + 1];
  return std::sqrt(-2.0 * std::log((a + 1.0) / kRange)) * std::cos(kTurn * b / kRange);
}

double initial_value(const InitialValues& initial, const ParameterWords& words,
                     std::size_t element) {
  switch (initial.kind) {
    case InitialValues::Kind::uniform:
      return initial.value * uniform(words, element);
    case InitialValues::Kind::normal:
      return initial.value * normal(words, element);
    case InitialValues::Kind::constant:
      break;
  }
  return initial.value;
}

}  // namespace

void initialize(const std::vector<Parameter>& parameters, std::span<float> arena,
                std::uint64_t seed) {
  std::fill(arena.begin(), arena.end(), 0.0F);
  std::vector<float> values;
  for (const Parameter& parameter : parameters) {
    const ParameterWords words(parameter.name, seed);
    values.resize(parameter.count);
    for (std::size_t e = 0; e < parameter.count; ++e)
      values[e] = static_cast<float>(initial_value(parameter.initial, words, e));
    import_parameter(parameter, values, arena);
  }
}

}  // namespace ddprun::trainer
