// Catch2 2's one header, by its name, where Catch2 3 is what the machine has: version 3 renamed
// what is mended here.
#pragma once

#include <catch2/catch_all.hpp>
#include <concepts>
#include <string>
#include <utility>

using Catch::Approx;

namespace Catch {
namespace Matchers {
template <std::convertible_to<std::string> Text>
StringContainsMatcher Contains(Text&& part) {
  return ContainsSubstring(std::forward<Text>(part));
}
}  // namespace Matchers
using Matchers::Contains;
using Matchers::EndsWith;
using Matchers::Equals;
using Matchers::StartsWith;
}  // namespace Catch
