// Text of users in lines of ours.
#include "base/printable.hpp"

#include <catch2/catch.hpp>
#include <string>

using namespace ddprun;

TEST_CASE("what controls a terminal or begins a line is shown as in C") {
  CHECK(printable("a\nb\tc\r") == "a\\nb\\tc\\r");
  CHECK(printable("\x1b[31mred\x7f\x01") == "\\x1b[31mred\\x7f\\x01");
  CHECK(printable(std::string_view("a\0b", 3)) == "a\\x00b");
  CHECK(printable("\xc2\x9b"
                  "31m") == "\\xc2\\x9b31m");  // the escape of one character
}

TEST_CASE("text in any language and bytes that are no UTF-8 stay as they are") {
  for (const std::string text : {"", "train.py", "m\xc3\xbcnchen", "\xe6\x97\xa5\xe6\x9c\xac",
                                 "\xc2\xa0", "caf\xe9", "a\\n", "\xc2"}) {
    CHECK(printable(text) == text);
  }
}

TEST_CASE("control characters that are kept stay as they are") {
  CHECK(printable("a\nb\x1b", "\n") == "a\nb\\x1b");
}
