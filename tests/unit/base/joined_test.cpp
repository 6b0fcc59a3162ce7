#include "base/joined.hpp"

#include <catch2/catch.hpp>

using ddprun::joined;

TEST_CASE("words are joined with a text between each two of them, also where a word is empty") {
  CHECK(joined({}, ", ").empty());
  CHECK(joined({"a"}, ", ") == "a");
  CHECK(joined({"a", "", "c"}, ", ") == "a, , c");
}
