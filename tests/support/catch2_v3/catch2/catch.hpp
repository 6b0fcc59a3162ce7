// Catch2 2's one header, by its name, where Catch2 3 is what the machine has: version 3 renamed
// what is mended here.
#pragma once

#include <string>

#include <catch2/catch_all.hpp>

using Catch::Approx;

namespace Catch::Matchers {
inline StringContainsMatcher Contains(const std::string& part) { return ContainsSubstring(part); }
inline StringContainsMatcher Contains(const char* part) { return ContainsSubstring(part); }
}  // namespace Catch::Matchers
