#include "launcher/report/screen_text.hpp"

#include <catch2/catch.hpp>
#include <string>

using ddprun::launcher::on_screen;

TEST_CASE("text of other programs is one line without control characters") {
  CHECK(on_screen("ValueError: bad lr \u00e4\u20ac\U0001f600", 100) ==
        "ValueError: bad lr \u00e4\u20ac\U0001f600");
  CHECK(on_screen("a\nb\r\tc", 100) == "a b  c");
  CHECK(on_screen("\x1b[1;31mred\x1b[0m \x1b]0;title\x07one \x1b]8;;x\x1b\\two", 100) ==
        "red one two");
  CHECK(on_screen("\x1b[31", 100) == "?[31");
  CHECK(on_screen("\x1b]0;title", 100) == "?]0;title");
  CHECK(on_screen("\x1b", 100) == "?");
  CHECK(on_screen(std::string("\0\x7f\x9b", 3) + "\xc2\x9b"
                                                 "31m",
                  100) == "?????31m");
  CHECK(on_screen("\xff\xc3", 100) == "??");
}

TEST_CASE("a long text is cut between characters") {
  CHECK(on_screen("abcd", 4) == "abcd");
  CHECK(on_screen("abcde", 4) == "abcd...");
  CHECK(on_screen("abc\u00e4", 4) == "abc...");
  CHECK(on_screen(std::string(1'000'000, 'x'), 400).size() == 403);
}
