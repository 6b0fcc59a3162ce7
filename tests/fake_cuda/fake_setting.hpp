// A number that a test gives to a fake by the environment.
#pragma once

#include <cstdlib>

inline int fake_setting(const char* name, int otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoi(value);
}
