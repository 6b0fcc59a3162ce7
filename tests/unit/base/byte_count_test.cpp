// Numbers of bytes as people write them.
#include "base/duration.hpp"

#include <catch2/catch.hpp>

using ddprun::parse_byte_count;

TEST_CASE("a number of bytes has a letter for powers of 1024, or none") {
  CHECK(parse_byte_count("1") == 1U);
  CHECK(parse_byte_count(" 500000 ") == 500'000U);
  CHECK(parse_byte_count("64K") == 64U << 10);
  CHECK(parse_byte_count("100m") == 100U << 20);
  CHECK(parse_byte_count("+2G") == std::uint64_t{2} << 30);
  CHECK(parse_byte_count("9223372036854775807") == 9'223'372'036'854'775'807U);
}

TEST_CASE("other texts are no number of bytes") {
  for (const char* text : {"", "0", "-1", "K", "1.5G", "1T", "1KB", "0x10", "1 2", "+-1", "nan",
                           "9223372036854775808", "8589934592G"}) {
    INFO(text);
    CHECK_FALSE(parse_byte_count(text));
  }
}
