// Tests that repeat something at random: a few times in every run, often in the slow ones.
#pragma once

#include <cstdlib>

namespace ddprun::test {

/// The number in the environment variable `name`, which ddprun_test_again() sets; `usual` without
/// it.
inline int repeats(const char* name, int usual) {
  const char* const number = std::getenv(name);
  return number != nullptr ? std::atoi(number) : usual;
}

}  // namespace ddprun::test
