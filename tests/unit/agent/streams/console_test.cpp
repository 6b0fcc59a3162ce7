#include "agent/streams/console.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/agent/streams/screen.hpp"

using namespace std::chrono_literals;
using ddprun::agent::Console;
using ddprun::agent::ConsoleSettings;
using ddprun::agent::LineEnding;
using ddprun::agent::LogBuffer;

namespace {

/// A console, the bytes it gives, and a clock that moves by hand.
struct Output {
  explicit Output(ConsoleSettings settings) : console(settings) {}
  static std::string prefix(int source) { return "[" + std::to_string(source) + "] "; }
  void add(int source, const std::string& text, LineEnding ending = LineEnding::newline) {
    console.add(source, prefix(source), text, ending, out);
  }
  void show(int source, std::vector<std::string> rows) {
    console.show(source, prefix(source), std::move(rows), now);
  }
  void draw(std::chrono::milliseconds later = 1s) {
    now += later;
    console.draw(now, out);
  }
  std::string take() {
    std::string bytes(out.view());
    out.clear();
    return bytes;
  }
  Console console;
  LogBuffer out;
  Console::Clock::time_point now{};
};

constexpr ConsoleSettings kFile{.bar_interval = 10s};
constexpr ConsoleSettings kTerminal{.columns = 20, .rows = 8, .terminal = true};

}  // namespace

TEST_CASE("every line has its prefix") {
  Output file(kFile);
  file.add(0, "a");
  file.add(1, "b");
  file.add(0, "");
  CHECK(file.take() == "[0] a\n[1] b\n[0] \n");
}

TEST_CASE("bytes that pass are shown as they are, and only a line of another source ends theirs") {
  Output file(kFile);
  const auto pass = [&](std::string_view bytes) { file.console.pass(0, bytes, file.out); };
  pass("a");
  pass("b\n\x1b[1m50%\r");
  CHECK(file.take() == "ab\n\x1b[1m50%\r");
  CHECK(file.console.unfinished());
  file.console.leave(file.out);
  CHECK(file.take().empty());
  file.add(1, "ours");
  pass("c\n");
  CHECK(file.take() == "\n[1] ours\nc\n");
  CHECK_FALSE(file.console.unfinished());
}

TEST_CASE("an unfinished line is continued by its own source and ended by another") {
  for (const auto& settings : {kFile, kTerminal}) {
    Output output(settings);
    output.add(0, "Enter: ", LineEnding::none);
    output.add(0, "42");
    output.add(0, "half", LineEnding::none);
    output.add(1, "other");
    output.add(0, "rest");
    CHECK(output.take() == "[0] Enter: 42\n[0] half\n[1] other\n[0] rest\n");
  }
}

TEST_CASE("an unfinished line is ended when something else must be written") {
  Output file(kFile);
  file.console.end_line(file.out);
  CHECK(file.take().empty());
  file.add(0, "half", LineEnding::none);
  file.console.end_line(file.out);
  CHECK(file.take() == "[0] half\n");
}

TEST_CASE("a block of lines is shown like its lines one by one") {
  Output one(kFile);
  Output block(kFile);
  for (Output* output : {&one, &block}) output->add(1, "half", LineEnding::none);
  for (const char* line : {"a", "", "bc"}) one.add(0, line);
  block.console.add_lines(0, "[0] ", "a\n\nbc\n", block.out);
  CHECK(one.take() == block.take());
  block.console.add_lines(0, "", "a\nb\n", block.out);
  CHECK(block.take() == "a\nb\n");
}

TEST_CASE("a rank that PyTorch prints is not printed twice") {
  Output file(kFile);
  for (const char* prefix : {"[rank3] ", "\x1b[36m[rank3] \x1b[0m"}) {
    file.console.add_lines(
        0, prefix, "[rank3]: Traceback\n[rank3]:[W1122 x\n[rank4]: b\n[rank3] c\n", file.out);
    const std::string p = prefix;
    CHECK(file.take() ==
          p + "Traceback\n" + p + "[W1122 x\n" + p + "[rank4]: b\n" + p + "[rank3] c\n");
  }
  file.console.add(0, "[default0]:", "[rank3]: x", LineEnding::newline, file.out);
  CHECK(file.take() == "[default0]:[rank3]: x\n");
}

TEST_CASE("bars of several workers have a row each, and lines scroll by above them") {
  Output terminal(kTerminal);
  ddprun::test::Screen screen(20);
  terminal.show(0, {"10%"});
  terminal.show(1, {"11%"});
  terminal.draw();
  screen.write(terminal.take());
  CHECK(screen.text() == "[0] 10%\n[1] 11%\n");
  terminal.add(1, "hello");
  terminal.show(1, {"12%"});
  terminal.draw();
  screen.write(terminal.take());
  CHECK(screen.text() == "[1] hello\n[0] 10%\n[1] 12%\n");
  terminal.show(0, {});
  terminal.add(0, "100%");
  terminal.draw();
  screen.write(terminal.take());
  CHECK(screen.text() == "[1] hello\n[0] 100%\n[1] 12%\n");
  terminal.show(1, {});
  terminal.draw();
  screen.write(terminal.take());
  CHECK(screen.text() == "[1] hello\n[0] 100%\n");
  CHECK_FALSE(terminal.console.unfinished());
}

TEST_CASE("bars that fill the width do not wrap") {
  Output terminal(kTerminal);
  ddprun::test::Screen screen(20);
  CHECK(terminal.console.room("\x1b[36m[0] \x1b[0m") == 16);
  for (const char c : {'a', 'b', 'c'}) {
    for (const int source : {0, 1}) terminal.show(source, {std::string(16, c)});
    terminal.draw();
  }
  screen.write(terminal.take());
  CHECK(screen.text() == "[0] " + std::string(16, 'c') + "\n[1] " + std::string(16, 'c') + "\n");
}

TEST_CASE("a bar is drawn some times a second, however often it moves") {
  Output terminal(kTerminal);
  terminal.show(0, {"1"});
  terminal.draw();
  CHECK_FALSE(terminal.take().empty());
  terminal.show(0, {"2"});
  terminal.draw(1ms);
  CHECK(terminal.take().empty());
  CHECK(terminal.console.due() == terminal.now - 1ms + Console::kFrame);
  terminal.draw(Console::kFrame);
  CHECK_FALSE(terminal.take().empty());
  CHECK_FALSE(terminal.console.due());
}

TEST_CASE("more bars than fit are counted") {
  Output terminal(kTerminal);
  ddprun::test::Screen screen(20);
  for (int source = 0; source < 9; ++source) terminal.show(source, {"x"});
  terminal.draw();
  screen.write(terminal.take());
  CHECK(screen.text() == "[0] x\n[1] x\n[2] x\n... and 6 more rows\n");
}

TEST_CASE("bars make way for a prompt, and come back when it is answered") {
  Output terminal(kTerminal);
  ddprun::test::Screen screen(20);
  terminal.show(1, {"10%"});
  terminal.draw();
  terminal.add(0, "(Pdb) ", LineEnding::none);
  terminal.show(1, {"20%"});
  terminal.draw();
  screen.write(terminal.take());
  CHECK(screen.text() == "[0] (Pdb)\n");
  screen.write("c\r\n");  // what the user types, the terminal shows by itself
  terminal.add(0, "");
  terminal.draw();
  screen.write(terminal.take());
  CHECK(screen.text() == "[0] (Pdb) c\n\n[1] 20%\n");
}

TEST_CASE("rows that a narrower terminal has wrapped are taken off whole") {
  Output terminal(kTerminal);
  terminal.show(0, {std::string(16, 'a')});
  terminal.show(1, {std::string(16, 'b')});
  terminal.draw();
  terminal.take();
  ddprun::test::Screen screen(12);
  screen.write("line\n[0] aaaaaaaa\naaaaaaaa\n[1] bbbbbbbb\nbbbbbbbb\x1b[A\r");  // as the terminal
                                                                                 // has it now
  terminal.console.resize(12, 8, terminal.now, terminal.out);
  terminal.show(0, {"aaaaaaaa"});
  terminal.show(1, {"bbbbbbbb"});
  terminal.draw();
  screen.write(terminal.take());
  CHECK(screen.text() == "line\n[0] aaaaaaaa\n[1] bbbbbbbb\n");
}

TEST_CASE("nothing is drawn while the size of the terminal changes") {
  Output terminal(kTerminal);
  terminal.show(0, {"1"});
  terminal.draw();
  terminal.console.resize(30, 8, terminal.now, terminal.out);
  terminal.take();
  terminal.show(0, {"2"});
  terminal.draw(Console::kResizeRest - 1ms);
  CHECK(terminal.take().empty());
  CHECK(terminal.console.due() == terminal.now + 1ms);
  terminal.draw(1ms);
  CHECK_FALSE(terminal.take().empty());
}

TEST_CASE("in a file a bar that moves is a line from time to time") {
  Output file(kFile);
  file.show(0, {"1%"});
  CHECK(file.console.due() == file.now + 10s);
  file.draw(9s);
  CHECK(file.take().empty());
  file.show(0, {"9%"});
  file.draw(1s);
  CHECK(file.take() == "[0] 9%\n");
  CHECK_FALSE(file.console.due());  // it does not move: no line, and no wake-up
  file.draw(60s);
  CHECK(file.take().empty());
  file.show(0, {"10%"});
  file.draw();
  CHECK(file.take() == "[0] 10%\n");
}

TEST_CASE("of several rows in a file only those that moved are written") {
  Output file(kFile);
  file.show(0, {"epoch 1", "step 5"});
  file.draw(10s);
  CHECK(file.take() == "[0] epoch 1\n[0] step 5\n");
  file.show(0, {"epoch 1", "step 6"});
  file.draw(10s);
  CHECK(file.take() == "[0] step 6\n");
}

TEST_CASE("with an interval of 0 only ends are written") {
  Output file({.bar_interval = 0s});
  file.show(0, {"1%"});
  CHECK_FALSE(file.console.due());
  file.draw(1h);
  CHECK(file.take().empty());
}

TEST_CASE("terminals that are too small, or cannot move their cursor, are like files") {
  for (const ConsoleSettings settings :
       {ConsoleSettings{}, ConsoleSettings{.columns = 5, .rows = 24},
        ConsoleSettings{.columns = 80, .rows = 1}}) {
    Output output(settings);
    CHECK_FALSE(output.console.draws());
    output.show(0, {"1%"});
    output.draw(10s);
    CHECK(output.take() == "[0] 1%\n");
  }
}

TEST_CASE("lines are whole and bars are gone at the end, whatever workers do") {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    const std::size_t columns = 12 + random() % 30;
    Output terminal({.columns = static_cast<int>(columns), .rows = 8});
    ddprun::test::Screen screen(columns);
    std::string expected;
    for (int i = 0; i < 60; ++i) {
      const int source = static_cast<int>(random() % 6);
      switch (random() % 4) {
        case 0: {
          const std::string line(random() % 8, 'l');
          terminal.add(source, line);
          expected += Output::prefix(source) + line;
          while (expected.ends_with(' ')) expected.pop_back();
          expected += "\n";
          break;
        }
        case 1:
          terminal.show(source, {});
          break;
        default:
          terminal.show(source, std::vector<std::string>(
                                    1 + random() % 2, std::string(random() % (columns - 3), 'b')));
      }
      terminal.draw(std::chrono::milliseconds(random() % 100));
      screen.write(terminal.take());
    }
    for (int source = 0; source < 6; ++source) terminal.show(source, {});
    terminal.draw();
    screen.write(terminal.take());
    CHECK(screen.text() == expected);
  }
}

TEST_CASE("in a file bars that are shorter than the interval show up, too") {
  Output file(kFile);
  int states = 0;
  for (int bar = 0; bar < 10; ++bar) {
    for (int second = 0; second < 4; ++second) {
      file.show(0, {"bar " + std::to_string(bar) + " " + std::to_string(second)});
      file.draw(1s);
      states += file.take().empty() ? 0 : 1;
    }
    file.show(0, {});
  }
  CHECK(states == 4);
}

TEST_CASE("a bar that begins long after another has its own time") {
  Output file(kFile);
  file.show(0, {"first"});
  file.show(0, {});
  file.now += 60s;
  file.show(0, {"second"});
  file.draw(1s);
  CHECK(file.take().empty());
}

TEST_CASE("in a file a finished bar is not written twice") {
  Output file(kFile);
  file.show(0, {"100%"});
  file.draw(11s);
  CHECK(file.take() == "[0] 100%\n");
  file.add(0, "100%");
  file.show(0, {});
  file.add(0, "100%");  // another line
  CHECK(file.take() == "[0] 100%\n");
}

TEST_CASE("nothing that controls a terminal gets there but styles") {
  Output terminal({.columns = 40, .rows = 8, .terminal = true});
  const std::string line =
      "a\x0e\xc2\x9b"
      "2J\x1b[31mred\x1b[0m";
  terminal.add(0, line);
  terminal.console.add_lines(0, "[0] ", line + "\nb\x0b\n", terminal.out);
  CHECK(terminal.take() == "[0] a??2J\x1b[31mred\x1b[0m\n[0] a??2J\x1b[31mred\x1b[0m\n[0] b?\n");
  Output file(kFile);
  file.add(0, line);
  CHECK(file.take() == "[0] " + line + "\n");
}

TEST_CASE("while the terminal is another program's nothing is drawn") {
  Output terminal(kTerminal);
  terminal.show(0, {"50%"});
  terminal.console.rest_until(terminal.now + 1s);
  terminal.draw(500ms);
  CHECK(terminal.take().empty());
  terminal.draw(600ms);
  CHECK(terminal.take().find("50%") != std::string::npos);
}

TEST_CASE("long lines count as the rows that they take") {
  Output terminal(kTerminal);
  terminal.add(0, std::string(36, 'x'));  // with its prefix 40 columns: two rows
  CHECK(terminal.console.rows_written() == 2);
  terminal.console.add_lines(0, "", "a\n" + std::string(41, 'x') + "\n", terminal.out);
  CHECK(terminal.console.rows_written() == 6);
}

TEST_CASE("rows are asked for when they are due, and not for each change") {
  for (const ConsoleSettings& settings : {kFile, kTerminal}) {
    Output output(settings);
    Console& console = output.console;
    CHECK(console.wants_rows(0, output.now));  // a bar begins
    output.show(0, {"1%"});
    output.draw(settings.columns > 0 ? 1ms : 10s);
    CHECK_FALSE(output.take().empty());
    CHECK_FALSE(console.due().has_value());
    CHECK_FALSE(console.wants_rows(0, output.now));
    CHECK_FALSE(console.lacks_rows(0));
    console.change(0, output.now);
    CHECK(console.lacks_rows(0));
    const auto due = console.due();
    REQUIRE(due.has_value());
    CHECK(*due > output.now);
    CHECK(console.wants_rows(0, *due));
    output.now = *due;
    output.show(0, {"2%"});
    CHECK_FALSE(console.lacks_rows(0));
    output.draw(0ms);
    CHECK_THAT(output.take(), Catch::Matchers::Contains("2%"));
    CHECK_FALSE(console.due().has_value());
  }
}
