#include "agent/terminal/terminal_text.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <string>

using namespace ddprun::agent;
using Kind = EscapeSequence::Kind;

TEST_CASE("columns of text: wide characters take two, marks and escape sequences none") {
  CHECK(text_columns("abc") == 3);
  CHECK(text_columns("\x1b[1;31mabc\x1b[0m") == 3);
  CHECK(text_columns("100%|\xe2\x96\x88\xe2\x96\x8f|") == 8);  // blocks of a bar
  CHECK(text_columns("\xe6\x97\xa5\xe6\x9c\xac") == 4);        // two CJK characters
  CHECK(text_columns("e\xcc\x81") == 1);                       // e and an accent
  CHECK(text_columns("\xf0\x9f\x9a\x80") == 2);                // an emoji
  CHECK(text_columns("\xff\xfe") == 2);                        // no UTF-8: a column each
  CHECK(text_columns("\x1b]8;;http://x\x1b\\link\x1b]8;;\x07") == 4);
}

TEST_CASE("text is cut between characters, and its styles are switched off") {
  CHECK(cut_to_columns("abcdef", 4) == "abcd");
  CHECK(cut_to_columns("abc", 4) == "abc");
  CHECK(cut_to_columns("\x1b[31mabcdef", 2) == "\x1b[31mab\x1b[0m");
  CHECK(cut_to_columns("\x1b[31ma\x1b[0mbc", 2) == "\x1b[31ma\x1b[0mb");
  CHECK(cut_to_columns("a\xe6\x97\xa5", 2) == "a");
  CHECK(cut_to_columns("abc", 0).empty());
}

TEST_CASE("escape sequences are told apart") {
  CHECK(read_escape("\x1b[1;31mx").kind == Kind::style);
  CHECK(read_escape("\x1b[1;31mx").bytes == 7);
  CHECK(read_escape("\x1b[1;31mx").parameters == "1;31");
  const EscapeSequence up = read_escape("\x1b[12A");
  CHECK(up.kind == Kind::control);
  CHECK(up.final == 'A');
  CHECK(up.number(1) == 12);
  CHECK(read_escape("\x1b[A").number(1) == 1);
  CHECK(read_escape("\x1b[99999999999A").number(1) == 9999);
  CHECK(read_escape("\x1b[?25l").parameters == "?25");
  CHECK(read_escape("\x1b]0;title\x07x").bytes == 10);
  CHECK(read_escape("\x1b]0;title\x1b\\x").bytes == 11);
  CHECK(read_escape("\x1b(B").bytes == 3);
  CHECK(read_escape("\x1b"
                    "7")
            .bytes == 2);
  for (const char* part : {"\x1b", "\x1b[", "\x1b[31", "\x1b]0;title", "\x1b]0;title\x1b", "\x1b("})
    CHECK(read_escape(part).kind == Kind::incomplete);
  CHECK(read_escape("\x1b[" + std::string(kEscapeBytesMax, '1')).bytes == 1);
}

TEST_CASE("a line stays in its line when it has styles and links alone") {
  CHECK(stays_in_line("plain"));
  CHECK(stays_in_line("\x1b[1mbold\x1b[0m"));
  CHECK(stays_in_line("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\"));
  CHECK_FALSE(stays_in_line("a\rb"));
  CHECK_FALSE(stays_in_line("a\bb"));
  CHECK_FALSE(stays_in_line("\x1b[2Kline"));
  CHECK_FALSE(stays_in_line("half \x1b[3"));
}

TEST_CASE("any bytes are read to their end") {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = "\x1b";
    for (auto i = random() % 12; i > 0; --i)
      bytes.push_back(static_cast<char>(random() % 4 == 0 ? random() % 256
                                                          : "[]01;?mAK\x1b\x07"[random() % 11]));
    const EscapeSequence sequence = read_escape(bytes);
    CAPTURE(bytes);
    CHECK(sequence.bytes <= bytes.size());
    CHECK((sequence.bytes > 0 || sequence.kind == Kind::incomplete));
    CHECK(text_columns(cut_to_columns(bytes, 3)) <= 3);
  }
}

TEST_CASE("invalid UTF-8 is not taken for a character") {
  for (const std::string_view bytes :
       {"\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80"})
    CHECK(ddprun::agent::character_bytes(bytes) == 0);
}

TEST_CASE("what controls a terminal is not taken for a character") {
  for (const std::string_view bytes : {"\x1b", "\n", "\x7f", "\xc2\x80", "\xc2\x9b", "\xc2\x9f"})
    CHECK(ddprun::agent::character_bytes(bytes) == 0);
  CHECK(ddprun::agent::character_bytes("\xc2\xa0") == 2);
  CHECK(ddprun::agent::character_bytes("~") == 1);
}

TEST_CASE("settings of the keyboard are no styles, and strings are taken whole") {
  CHECK(read_escape("\x1b[1;38:5:2m").kind == Kind::style);
  CHECK(read_escape("\x1b[>4;2m").kind == Kind::control);
  CHECK(read_escape("\x1b[?4m").kind == Kind::control);
  CHECK(read_escape("\x1bPq#0\x1b\\x").bytes == 7);
  CHECK(read_escape("\x1b_Gf=100;AAAA\x1b\\x").kind == Kind::other);
  CHECK(read_escape("\x1b]0;title\nline").bytes == 1);
  CHECK(read_escape("\x1b]0;title").kind == Kind::incomplete);
}

TEST_CASE("a link that is not closed does not pass") {
  using ddprun::agent::stays_in_line;
  const std::string open = "\x1b]8;;http://a\x1b\\";
  CHECK(stays_in_line(open + "text\x1b]8;;\x1b\\"));
  CHECK_FALSE(stays_in_line(open + "text"));
}

TEST_CASE("characters that control a terminal become question marks") {
  using ddprun::agent::without_controls;
  CHECK(without_controls("plain\ttext \x1b[31mred\x1b[0m \xc3\xa9\xe6\x97\xa5").empty());
  CHECK(without_controls("a\xc2\x9b"
                         "2Jb") == "a?2Jb");
  CHECK(without_controls("\x0e"
                         "a\x0b\x05\x9b\x7f") == "?a????");
}
