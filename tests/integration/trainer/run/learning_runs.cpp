#include "tests/integration/trainer/run/learning_runs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <iostream>

#include "tests/support/skip.hpp"

namespace ddprun::test {

void only_in_release() {
#ifndef NDEBUG
  skip("learning takes minutes without optimization: build the release preset");
#endif
}

std::filesystem::path test_data(const std::string& name) {
  const char* folder = std::getenv("DDPRUN_TEST_DATA");
  if (folder == nullptr) skip("DDPRUN_TEST_DATA names no folder with real data sets");
  const std::filesystem::path path = std::filesystem::path(folder) / name;
  if (!std::filesystem::is_directory(path)) skip(path.string() + " is not there");
  return path;
}

double held_out(const std::string& figure, std::vector<std::string> arguments,
                std::chrono::minutes limit) {
  arguments.insert(arguments.end(), {"--checkpoint-every", "off"});
  const std::string last = train({.world_size = 2, .arguments = arguments, .limit = limit});
  const double value = std::stod(field(last, figure));
  // A test that passes would tell no more than that it did.
  std::cout << fmt::format("{} {:.4f} after {:.1f} s: train {}, 2 workers\n", figure, value,
                           std::stod(field(last, "seconds")), fmt::join(arguments, " "))
            << std::flush;
  return value;
}

}  // namespace ddprun::test
