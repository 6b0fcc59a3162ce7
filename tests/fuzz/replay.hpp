// Feeds an entry of the fuzzers with every input of its corpus, and with seeded changes of them.
// DDPRUN_FUZZ_RUNS is the number of changes where many more are wanted.
#pragma once

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/fuzz/mutation.hpp"

namespace ddprun::test {

using Entry = void (*)(const std::uint8_t*, std::size_t);

inline void feed(Entry entry, const std::string& bytes) {
  entry(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

/// An entry aborts where a promise is broken, so to come back is to have passed.
inline std::size_t replay(Entry entry, const std::string& name, std::size_t runs,
                          std::vector<std::string> more = {}) {
  std::vector<std::string> inputs = corpus(std::string(DDPRUN_CORPORA "/") + name);
  REQUIRE(inputs.size() >= 8);
  inputs.insert(inputs.end(), more.begin(), more.end());
  for (const std::string& input : inputs) feed(entry, input);
  Mutator mutator(inputs, 20240501);
  runs = run_length("DDPRUN_FUZZ_RUNS", runs);
  for (std::size_t run = 0; run < runs; ++run) feed(entry, mutator.next());
  return runs;
}

}  // namespace ddprun::test
