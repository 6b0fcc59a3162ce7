#include "agent/terminal/live_rows.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using ddprun::agent::LiveRows;

namespace {

/// Rows, the lines that became final, a clock that moves by hand.
struct Worker {
  void write(const std::string& bytes) { rows.write(bytes, now, finished); }
  void wait(std::chrono::milliseconds time) {
    now += time;
    rows.settle(now, finished);
  }
  std::string end() {
    rows.finish(finished);
    return finished;
  }
  [[nodiscard]] std::vector<std::string> shown(int columns = 1000) const {
    return rows.shown(columns);
  }
  LiveRows rows;
  LiveRows::Clock::time_point now{};
  std::string finished;
};

using Rows = std::vector<std::string>;

}  // namespace

TEST_CASE("a bar that is drawn again has its newest state") {
  Worker worker;
  worker.write("\r 10%");
  worker.write("\r 20%");
  CHECK(worker.shown() == Rows{" 20%"});
  CHECK(worker.finished.empty());
  worker.write("\n");
  CHECK(worker.shown() == Rows{" 20%"});  // a bar below it may follow
  worker.wait(LiveRows::kSettle);
  CHECK(worker.finished == " 20%\n");
  CHECK(worker.rows.idle());
}

TEST_CASE("counters that end with a carriage return are bars, too") {
  Worker worker;
  worker.write("step 9\r");
  CHECK(worker.shown() == Rows{"step 9"});
  worker.write("step 10\r");
  CHECK(worker.shown() == Rows{"step 10"});
  CHECK(worker.end() == "step 10\n");
}

TEST_CASE("a shorter state keeps the end of a longer one, as on any terminal") {
  Worker worker;
  worker.write("hello\rab");
  CHECK(worker.shown() == Rows{"abllo"});
  worker.write("\rab\x1b[K");
  CHECK(worker.shown() == Rows{"ab"});
  worker.write("\r  ");
  CHECK(worker.shown().empty());
}

TEST_CASE("styles go with the characters they were for") {
  Worker worker;
  worker.write("\r\x1b[32mok\x1b[0m rest");
  CHECK(worker.shown() == Rows{"\x1b[32mok\x1b[0m rest"});
  worker.write("\r\x1b[1m\x1b[31mno");
  CHECK(worker.shown() == Rows{"\x1b[1;31mno\x1b[0m rest"});
  CHECK(worker.shown(1) == Rows{"\x1b[1;31mn\x1b[0m"});
}

TEST_CASE("tqdm's bar at position 2 takes no empty lines") {
  Worker worker;
  worker.rows.hold_empty_lines(true);
  for (const char* state : {"10%", "20%", "30%"}) {
    worker.write("\n\n");
    worker.write("\r" + std::string(state));
    worker.write("\x1b[A\x1b[A");
    CHECK(worker.shown() == Rows{state});
  }
  CHECK(worker.finished.empty());
  // It ends as tqdm ends: at position 0, with a newline.
  worker.write("\r100%");
  worker.write("\n");
  CHECK(worker.end() == "100%\n");
}

TEST_CASE("tqdm's bar at position 1 leaves one line as well") {
  Worker worker;
  worker.rows.hold_empty_lines(true);
  worker.write("\n\r 50%\x1b[A");
  worker.write("\r100%\n");
  CHECK(worker.end() == "100%\n");
}

TEST_CASE("a worker that is killed leaves the last state of its bar") {
  Worker worker;
  worker.rows.hold_empty_lines(true);
  worker.write("\n\n\r 50%\x1b[A\x1b[A");
  CHECK(worker.end() == " 50%\n");
}

TEST_CASE("rich's rows are drawn in place, and lines go above them") {
  Worker worker;
  worker.write("\x1b[?25l");
  worker.write("down 10%\nup 5%");
  CHECK(worker.shown() == Rows{"down 10%", "up 5%"});
  const std::string back = "\r\x1b[2K\x1b[1A\x1b[2K";
  worker.write(back + "down 20%\nup 7%");
  CHECK(worker.finished.empty());
  CHECK(worker.shown() == Rows{"down 20%", "up 7%"});
  worker.write(back + "a line\ndown 20%\nup 7%");
  worker.write(back + "down 30%\nup 9%");
  CHECK(worker.finished == "a line\n");
  worker.write("\n\x1b[?25h");
  CHECK(worker.finished == "a line\ndown 30%\nup 9%\n");
  CHECK(worker.rows.idle());
}

TEST_CASE("a finished row that nothing comes back to is final after a while") {
  Worker worker;
  worker.write("first\n\r10%\x1b[A\r60%\x1b[B");  // it moves by one row, and ends below
  CHECK(worker.finished == "first\n");
  worker.write("\rTraceback\n");
  CHECK(worker.finished == "first\n60%\n");
  CHECK(worker.rows.settles_at());
  worker.wait(LiveRows::kSettle);
  worker.wait(LiveRows::kSettleDrawn);
  CHECK(worker.finished == "first\n60%\nTraceback\n");
  CHECK_FALSE(worker.rows.settles_at());
}

TEST_CASE("text printed behind a bar that fills the width is a line of its own") {
  Worker worker;
  worker.rows.set_columns(10);
  worker.write("\r#########-\r##########");
  worker.write("loss 0.5\n");
  CHECK(worker.finished == "loss 0.5\n");
  CHECK(worker.shown() == Rows{"##########"});
  worker.write("next\n");
  CHECK(worker.finished == "loss 0.5\nnext\n");
  CHECK(worker.shown() == Rows{"##########"});
  worker.write("\r==========");
  CHECK(worker.shown() == Rows{"=========="});
}

TEST_CASE("text printed at once behind the first state of a bar that fills the width") {
  Worker worker;
  worker.rows.set_columns(10);
  worker.write("\r##########");
  worker.write("Traceback (most recent call last):\n");
  CHECK(worker.finished == "Traceback (most recent call last):\n");
  CHECK(worker.shown() == Rows{"##########"});
}

TEST_CASE("text behind a bar that leaves one column is a line of its own, too") {
  Worker worker;
  worker.rows.set_columns(10);
  worker.write("\r#######1%\r#######2%");
  worker.write("loss 0.5\n");
  CHECK(worker.finished == "loss 0.5\n");
  CHECK(worker.shown() == Rows{"#######2%"});
}

TEST_CASE("a line of text that is written over a bar is whole, however long") {
  const std::string text = "BEGIN abcdefghijklmnopqrstuvwxyz END";
  const std::string bars[] = {"\r 10%", "\r#######1%\r#######2%", "\r" + std::string(50, '#')};
  for (const std::string& bar : bars) {
    for (const char* wiped : {"\r          \r", "\r\x1b[2K", "\r\x1b[K"}) {
      Worker worker;
      worker.rows.set_columns(10);
      worker.write(bar);
      worker.write(std::string(wiped) + text + "\n");
      worker.write("next\n");
      CHECK(worker.finished == text + "\nnext\n");
    }
  }
  Worker worker;  // not wiped
  worker.rows.set_columns(10);
  worker.write("\r#######1%\r#######2%");
  worker.write("\r" + text + "\n");
  CHECK(worker.end() == text + "\n");
}

TEST_CASE("text printed behind a bar at rest is a line of its own") {
  Worker worker;
  worker.write("\r37it");
  worker.wait(LiveRows::kBarRests);
  worker.write("loss 0.5\n");
  CHECK(worker.finished == "loss 0.5\n");
  CHECK(worker.shown() == Rows{"37it"});
}

TEST_CASE("a bar that is longer than the terminal is cut, however long") {
  Worker worker;
  worker.rows.set_columns(20);
  for (const std::string percent : {"10%", "20%"}) {
    worker.write("\r" + percent + std::string(100'000, '#'));
    CHECK(worker.shown() == Rows{percent + std::string(17, '#')});
  }
  worker.write("\n");
  CHECK(worker.end() == "20%" + std::string(17, '#') + "\n");
}

TEST_CASE("a bar that is longer than the terminal and rests leaves one line") {
  Worker worker;
  worker.rows.set_columns(10);
  for (const char* state : {"1/20 [=>.....] loss 0.2", "2/20 [==>....] loss 0.1"}) {
    worker.write("\r" + std::string(state));
    worker.wait(LiveRows::kBarRests);
  }
  worker.write("\n");
  worker.write("done\n");
  CHECK(worker.finished == "2/20 [==>.\ndone\n");
}

TEST_CASE("a counter that goes back by backspaces is cut as well") {
  Worker worker;
  worker.rows.set_columns(10);
  for (const char* loss : {"0.20", "0.10"})
    worker.write(std::string(15, '\b') + "\r1/20 loss: " + loss);
  worker.write("\n");
  worker.write("done\n");
  CHECK(worker.finished == "1/20 loss:\ndone\n");
}

TEST_CASE("a bar for a wider terminal leaves one line when the terminal gets narrower") {
  Worker worker;
  worker.rows.set_columns(20);
  worker.write("\r##########  10%");
  worker.rows.set_columns(10);
  worker.write("\r##########  20%");
  worker.write("\r##########  30%\n");
  worker.write("done\n");
  CHECK(worker.finished == "##########\ndone\n");
}

TEST_CASE("a bar within a bar, as tqdm draws them, leaves no line of the outer one behind") {
  Worker worker;
  worker.rows.hold_empty_lines(true);
  worker.write("\repochs:   0%");
  for (const char* state : {"10%", "20%"}) {
    worker.write("\n\rtrain: " + std::string(state) + "\x1b[A");
    CHECK(worker.shown() == Rows{"epochs:   0%", "train: " + std::string(state)});
  }
  worker.write("\n\r           \r\x1b[A");  // leave=False
  worker.write("\repochs: 100%\n");
  worker.wait(LiveRows::kSettleDrawn);
  CHECK(worker.finished == "epochs: 100%\n");
}

TEST_CASE("rich's rows that become more leave no frames behind") {
  Worker worker;
  worker.write("\x1b[?25l");
  worker.write("one\ntwo");
  std::string up = "\r\x1b[2K\x1b[1A\x1b[2K";
  worker.write(up + "one\ntwo\nthree");
  up += "\x1b[1A\x1b[2K";
  worker.write(up + "one\ntwo\nthree");
  CHECK(worker.shown() == Rows{"one", "two", "three"});
  worker.write(up + "a line\none\ntwo\nthree");
  worker.write(up + "one\ntwo\nthree");
  CHECK(worker.finished == "a line\n");
  worker.write("\n\x1b[?25h");
  CHECK(worker.end() == "a line\none\ntwo\nthree\n");
}

TEST_CASE("a title without an end does not swallow what follows") {
  Worker worker;
  worker.write("\x1b]0;title\nline\n");
  CHECK(worker.finished == "]0;title\nline\n");
  worker.write("\x1b]0;last words");
  CHECK(worker.end() == "]0;title\nline\n]0;last words\n");
}

TEST_CASE("a bar that was drawn for a wider terminal loses its end") {
  Worker worker;
  worker.rows.set_columns(10);
  worker.write("\r##########");
  worker.rows.set_columns(4);
  CHECK(worker.shown() == Rows{"####"});
}

TEST_CASE("wide characters and accents keep their columns") {
  Worker worker;
  worker.write("\r\xe6\x97\xa5\xe6\x9c\xac!");
  worker.write("\r\x1b[2Cx");  // over the second one
  CHECK(worker.shown() == Rows{"\xe6\x97\xa5x !"});
  CHECK(worker.shown(1).empty());
  worker.write("\re\xcc\x81");
  CHECK(worker.shown(1) == Rows{"e\xcc\x81"});
}

TEST_CASE("sequences and characters that come in pieces are whole") {
  const std::string bytes = "\r\x1b[1;32mgr\xc3\xbcn\x1b[0m \xe2\x96\x88\r\x1b[2K\x1b[1A";
  Worker whole;
  whole.write(bytes);
  Worker pieces;
  for (const char c : bytes) pieces.write(std::string(1, c));
  CHECK(whole.shown() == pieces.shown());
}

TEST_CASE("a bar that was erased in part has no text behind it") {
  Worker worker;
  worker.rows.set_columns(10);
  worker.write("\r##########\r##########");
  worker.write("\x1b[6G\x1b[K\x1b[20C\n");  // from the sixth column on; the cursor goes far beyond
  CHECK(worker.end() == "#####\n");
}

TEST_CASE("any bytes end as lines, within bounds") {
  std::mt19937 random(11);
  const std::vector<std::string> words = {
      "\x1b[A",    "\x1b[9999A", "\x1b[B",    "\x1b[2J",  "\x1b[H",    "\x1b[K",       "\x1b[1K",
      "\x1b[J",    "\x1b[1J",    "\x1b[?25l", "\x1b[3P",  "\x1b[9@",   "\x1b[99X",     "\x1b[5G",
      "\x1b[?25h", "\r",         "\n",        "\b",       "\t",        "\xe6\x97\xa5", "word",
      "\xff",      "\x1b[31m",   "\x1b",      "\xcc\x81", "\x1b[9999C"};
  for (int round = 0; round < 300; ++round) {
    Worker worker;
    worker.rows.set_columns(static_cast<int>(random() % 3) * 20);
    worker.rows.hold_empty_lines(random() % 2 == 0);
    for (int i = 0; i < 300; ++i) {
      worker.write(words[random() % words.size()]);
      if (random() % 20 == 0) worker.wait(std::chrono::milliseconds(random() % 500));
      CHECK(worker.shown().size() <= LiveRows::kRowsMax);
    }
    worker.end();
    CHECK(worker.rows.idle());
    CHECK((worker.finished.empty() || worker.finished.back() == '\n'));
  }
}

TEST_CASE("states that later ones hide make no difference") {
  std::mt19937 random(13);
  const std::vector<std::string> words = {"\r",     "\r", "\r",           "\r",           "ab",
                                          "c",      " ",  "\xe2\x96\x88", "\xe6\x97\xa5", "\x1b[K",
                                          "\x1b[A", "\b", "\x1b[31m",     "a long word"};
  std::size_t left_out = 0;
  for (int round = 0; round < 2000; ++round) {
    Worker all;
    Worker some;
    for (Worker* worker : {&all, &some}) worker->rows.set_columns(round % 3 * 5);
    for (int line = 0; line < 4; ++line) {
      std::string bytes;
      // Mostly bars: few words that are more than text.
      const std::size_t kinds = random() % 4 == 0 ? words.size() : 8;
      for (int i = 0; i < 30; ++i) bytes += words[random() % kinds];
      bytes += random() % 2 == 0 ? "\n" : "";
      std::string kept;
      const auto seen = ddprun::agent::without_hidden_states(bytes, kept);
      left_out += bytes.size() - seen.size();
      all.write(bytes);
      some.write(std::string(seen));
      CAPTURE(round, bytes, seen);
      REQUIRE(all.shown() == some.shown());
      REQUIRE(all.finished == some.finished);
    }
    REQUIRE(all.end() == some.end());
  }
  CHECK(left_out > 50'000);
}
