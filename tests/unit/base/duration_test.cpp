// Durations as people write them.
#include "base/duration.hpp"

#include <catch2/catch.hpp>
#include <string>

using namespace ddprun;
using namespace std::chrono_literals;

TEST_CASE("a duration is a number of seconds, or a number with its unit") {
  CHECK(parse_duration("30") == 30s);
  CHECK(parse_duration("0.25") == 250ms);
  CHECK(parse_duration("30s") == 30s);
  CHECK(parse_duration("500ms") == 500ms);
  CHECK(parse_duration("1.5m") == 90s);
  CHECK(parse_duration("2h") == 2h);
  CHECK(parse_duration("1e9") == 1'000'000'000s);
}

TEST_CASE("blanks, a plus, an exponent and capitals do not matter in a duration") {
  CHECK(parse_duration(" +1.5e1 S ") == 15s);
  CHECK(parse_duration("5 s") == 5s);
  CHECK(parse_duration("20MS") == 20ms);
}

TEST_CASE("no duration above zero is rounded to zero") {
  for (const std::string zero : {"0", "0.0", "0ms", "0e5", "-0"}) CHECK(parse_duration(zero) == 0s);
  CHECK(parse_duration("0.0000004ms") == 1ns);
  CHECK(parse_duration("1e-300") == 1ns);
}

TEST_CASE("a text that is no duration is refused") {
  for (const std::string text : {"", " ", "s", "-1", "- 1", "+-1", "nan", "inf", "1.1e9", "1e99",
                                 "1e999", "1e-400", "0x10", "3 days", "5x", "1d", "1s2", "1,5"}) {
    INFO(text);
    CHECK_FALSE(parse_duration(text).has_value());
  }
  CHECK_FALSE(parse_duration(std::string("5\0s", 3)).has_value());
}
