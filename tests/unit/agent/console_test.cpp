#include "agent/streams/console.hpp"

#include <catch2/catch.hpp>
#include <string>

using ddprun::agent::Console;
using ddprun::agent::LineEnding;

namespace {

struct Screen {
  explicit Screen(bool terminal) : console(terminal) {}
  void add(int source, const std::string& text, LineEnding ending = LineEnding::newline) {
    console.add(source, "[" + std::to_string(source) + "] ", text, ending, out);
  }
  Console console;
  ddprun::agent::LogBuffer out;
};

}  // namespace

TEST_CASE("every line has its prefix") {
  Screen screen(false);
  screen.add(0, "a");
  screen.add(1, "b");
  screen.add(0, "");
  CHECK(screen.out.view() == "[0] a\n[1] b\n[0] \n");
}

TEST_CASE("an unfinished line is continued by its own source and ended by another") {
  Screen screen(true);
  screen.add(0, "Enter: ", LineEnding::none);
  screen.add(0, "42");
  screen.add(0, "half", LineEnding::none);
  screen.add(1, "other");
  screen.add(0, "rest");
  CHECK(screen.out.view() == "[0] Enter: 42\n[0] half\n[1] other\n[0] rest\n");
}

TEST_CASE("a progress bar overwrites itself on a terminal") {
  Screen screen(true);
  screen.add(0, "", LineEnding::carriage_return);
  screen.add(0, "10%", LineEnding::carriage_return);
  screen.add(0, "20%", LineEnding::carriage_return);
  screen.add(0, "", LineEnding::newline);
  screen.add(0, "done");
  CHECK(screen.out.view() == "[0] 10%\r[0] 20%\x1b[K\n[0] done\n");
}

TEST_CASE("lines of others do not run into a progress bar") {
  Screen screen(true);
  screen.add(0, "10%", LineEnding::carriage_return);
  screen.add(1, "hello");
  screen.add(0, "20%", LineEnding::carriage_return);
  CHECK(screen.out.view() == "[0] 10%\n[1] hello\n[0] 20%");
}

TEST_CASE("only the last state of a progress bar reaches a file") {
  Screen screen(false);
  screen.add(0, "10%", LineEnding::carriage_return);
  screen.add(0, "20%", LineEnding::carriage_return);
  screen.add(0, "100%");
  CHECK(screen.out.view() == "[0] 100%\n");
}

TEST_CASE("an unfinished line is ended when something else must be written") {
  Screen screen(false);
  ddprun::agent::LogBuffer nothing;
  screen.console.end_line(nothing);
  CHECK(nothing.empty());
  screen.add(0, "half", LineEnding::none);
  screen.console.end_line(screen.out);
  CHECK(screen.out.view() == "[0] half\n");
}

TEST_CASE("a block of lines is shown like its lines one by one") {
  for (const bool terminal : {true, false}) {
    Screen one(terminal);
    Screen block(terminal);
    for (Screen* screen : {&one, &block}) {
      screen->add(1, "half", LineEnding::none);
      screen->add(0, "bar", LineEnding::carriage_return);
    }
    for (const char* line : {"a", "", "bc"}) one.add(0, line);
    block.console.add_lines(0, "[0] ", "a\n\nbc\n", block.out);
    CHECK(one.out.view() == block.out.view());
  }
}

TEST_CASE("without a prefix a block goes out as it is") {
  Screen screen(false);
  screen.console.add_lines(0, "", "a\nb\n", screen.out);
  CHECK(screen.out.view() == "a\nb\n");
}
