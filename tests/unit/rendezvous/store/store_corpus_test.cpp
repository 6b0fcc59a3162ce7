// The fuzzer's corpus as a test: every input through the fuzzer's own entry, in every build.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/c10d_entry.hpp"

using ddprun::test::fuzz_c10d;

namespace {

void feed(const std::string& bytes) {
  fuzz_c10d(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

std::vector<std::string> corpus() {
  std::vector<std::string> inputs;
  for (const auto& entry : std::filesystem::directory_iterator(DDPRUN_C10D_CORPUS)) {
    std::ifstream file(entry.path(), std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return inputs;
}

}  // namespace

TEST_CASE("inputs of the corpus keep every promise of parser and store") {
  const std::vector<std::string> inputs = corpus();
  REQUIRE(inputs.size() >= 10);
  for (const std::string& input : inputs) feed(input);
}

TEST_CASE("random changes to the corpus keep every promise of parser and store") {
  const std::vector<std::string> inputs = corpus();
  std::mt19937 random(20240501);
  const auto below = [&](std::size_t limit) { return random() % limit; };
  for (int i = 0; i < 20000; ++i) {
    std::string input = inputs[below(inputs.size())];
    for (std::size_t change = 0; change <= below(4) && !input.empty(); ++change) {
      switch (below(3)) {
        case 0:
          input[below(input.size())] = static_cast<char>(below(256));
          break;
        case 1:
          input.erase(below(input.size()), 1 + below(8));
          break;
        default:
          input.insert(below(input.size()), 1 + below(8), static_cast<char>(below(3)));
      }
    }
    feed(input);
  }
}
