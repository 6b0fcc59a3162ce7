#include "agent/streams/stream_text.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

using ddprun::agent::kLineBytesMax;
using ddprun::agent::LineEnding;
using ddprun::agent::StreamText;

namespace {

using Lines = std::vector<std::pair<std::string, LineEnding>>;

struct Sink {
  void lines(std::string_view block) {
    CHECK(block.ends_with('\n'));
    CHECK(block.find('\r') == std::string_view::npos);
    for (; !block.empty(); block.remove_prefix(block.find('\n') + 1))
      line(block.substr(0, block.find('\n')), LineEnding::newline);
  }
  void line(std::string_view text, LineEnding ending) {
    out.emplace_back(std::string(text), ending);
  }
  void redrawn() { ++drawn; }
  Lines out;
  int drawn = 0;
};

Lines lines_of(const std::vector<std::string>& pieces, bool finish = true) {
  StreamText text;
  Sink sink;
  for (const std::string& piece : pieces) text.feed(piece, {}, sink);
  if (finish) text.finish(sink);
  return sink.out;
}

std::pair<std::string, LineEnding> line(const std::string& text) {
  return {text, LineEnding::newline};
}

}  // namespace

TEST_CASE("a line is given when its newline has come, not before") {
  CHECK(lines_of({"hel", "lo"}, false).empty());
  CHECK(lines_of({"hel", "lo\nwor"}, false) == Lines{line("hello")});
  CHECK(lines_of({"a\n\nb\n"}) == Lines{line("a"), line(""), line("b")});
}

TEST_CASE("the end of the stream ends its last line") {
  CHECK(lines_of({"a\nb"}) == Lines{line("a"), line("b")});
  CHECK(lines_of({""}).empty());
}

TEST_CASE("the last state of a bar is a line, and earlier states are only drawn") {
  StreamText text;
  Sink sink;
  text.feed("10%\r20%\r", {}, sink);
  CHECK(sink.out.empty());
  CHECK(sink.drawn == 1);
  CHECK(text.live(80) == std::vector<std::string>{"20%"});
  text.feed("\n", {}, sink);
  text.settle(StreamText::Clock::time_point{} + std::chrono::seconds(1), sink);
  CHECK(sink.out == Lines{line("20%")});
  CHECK(text.live(80).empty());
}

TEST_CASE("a carriage return before a newline is no part of the line") {
  CHECK(lines_of({"a\r\nb\r\n"}) == Lines{line("a"), line("b")});
  CHECK(lines_of({"a\r", "\n"}) == Lines{line("a")});
}

TEST_CASE("coloured lines pass as they are") {
  CHECK(lines_of({"\x1b[31mred\x1b[0m  \nplain\n"}) ==
        Lines{line("\x1b[31mred\x1b[0m  "), line("plain")});
}

TEST_CASE("sequences that move the cursor or switch modes are not passed on") {
  CHECK(lines_of({"a\n\x1b[?25h"}) == Lines{line("a")});
  CHECK(lines_of({"\x1b[2J\x1b[Hstart\n"}) == Lines{line("start")});
  CHECK(lines_of({"\x1b]0;title\x07text\n"}) == Lines{line("text")});
}

TEST_CASE("bytes that are no text pass through") {
  const std::string bytes("a\0b\xff\n", 5);
  CHECK(lines_of({bytes}) == Lines{line(std::string("a\0b\xff", 4))});
}

TEST_CASE("a line over the limit comes in pieces and loses nothing") {
  const std::string text(kLineBytesMax * 2 + 10, 'x');
  const Lines lines = lines_of({text + "\nafter\n"});
  std::string joined;
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) joined += lines[i].first;
  CHECK(joined == text);
  CHECK(lines.front().second == LineEnding::none);
  CHECK(lines[lines.size() - 2].second == LineEnding::newline);
  CHECK(lines.back() == line("after"));
}

TEST_CASE("a prompt is given as a piece, and what follows goes behind it as it is") {
  StreamText text;
  Sink sink;
  text.feed("(Pdb) ", {}, sink);
  text.give_piece(sink, true);
  text.feed("\b\x1b[K", {}, sink);
  text.feed("42\nnext\n", {}, sink);
  CHECK(sink.out == Lines{{"(Pdb) ", LineEnding::none},
                          {"\b\x1b[K", LineEnding::none},
                          line("42"),
                          line("next")});
}

TEST_CASE("on a terminal empty lines wait for the text below them") {
  StreamText text;
  text.set_terminal(80);
  Sink sink;
  text.feed("a\n\n\n", {}, sink);
  CHECK(sink.out == Lines{line("a")});
  text.feed("b\n", {}, sink);
  CHECK(sink.out == Lines{line("a"), line(""), line(""), line("b")});
}

TEST_CASE("how the bytes are cut makes no difference") {
  std::mt19937 random(7);
  const std::string alphabet = "ab\n\r";
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (int i = 0; i < 60; ++i) text.push_back(alphabet[random() % alphabet.size()]);
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t n = 1 + random() % 5;
      pieces.push_back(text.substr(at, n));
      at += n;
    }
    CAPTURE(text);
    CHECK(lines_of(pieces) == lines_of({text}));
  }
}

TEST_CASE("a piece of a line is continued with all that comes, not again and again") {
  StreamText text;
  Sink sink;
  text.feed("epoch 0 ...", {}, sink);
  text.give_piece(sink);
  text.feed("..", {}, sink);
  CHECK(sink.out == Lines{{"epoch 0 ...", LineEnding::none}});
  text.feed(". done\r\nnext\n", {}, sink);
  CHECK(sink.out == Lines{{"epoch 0 ...", LineEnding::none}, line("... done"), line("next")});
}

TEST_CASE("a bar that begins behind a piece of a line is drawn below it") {
  StreamText text;
  Sink sink;
  text.feed("Loading", {}, sink);
  text.give_piece(sink);
  text.feed("\rLoading 1%", {}, sink);
  CHECK(sink.out == Lines{{"Loading", LineEnding::none}, line("")});
  CHECK(text.live(80) == std::vector<std::string>{"Loading 1%"});
}

TEST_CASE("a piece that turns out to be no prompt is ended") {
  StreamText text;
  Sink sink;
  text.feed("Loading 0:", {}, sink);
  text.give_piece(sink, true);
  CHECK(text.in_prompt());
  text.end_prompt(sink);
  text.feed("\rLoading 1%", {}, sink);
  CHECK(sink.out == Lines{{"Loading 0:", LineEnding::none}, line("")});
  CHECK(text.live(80) == std::vector<std::string>{"Loading 1%"});
}

TEST_CASE("a stream that draws more than anyone sees is text for the rest of the second") {
  StreamText text;
  Sink sink;
  StreamText::Clock::time_point now{};
  const std::string piece = "ab\bc\x1b[2J\x1b[31mred\x1b[0m\rd\n";
  const auto count = [&](const std::string& wanted) {
    return std::count(sink.out.begin(), sink.out.end(), line(wanted));
  };
  constexpr std::size_t kPieces = 4 * ddprun::agent::kDrawnBytesMax / 20;
  for (std::size_t i = 0; i < kPieces; ++i) text.feed(piece, now, sink);
  const std::string drawn = "dc\x1b[31mred\x1b[0m";
  const std::string plain = "ab?c?[2J\x1b[31mred\x1b[0m?d";
  CHECK(count(plain) > 0);
  text.feed("end\r\n", now, sink);
  CHECK(sink.out.back() == line("end"));
  now += ddprun::agent::kDrawingTime;
  sink.out.clear();
  text.feed(piece, now, sink);
  text.finish(sink);
  CHECK(count(plain) == 0);
  CHECK(sink.out.size() == 1);
}

TEST_CASE("of a stream that draws too much no text is lost or out of order") {
  StreamText text;
  Sink sink;
  std::mt19937 random(17);
  std::string expected;
  std::string seen;
  StreamText::Clock::time_point now{};
  for (int number = 0; number < 100'000; ++number) {
    const std::string word = std::to_string(number) + ";";
    expected += word;
    now += std::chrono::microseconds(random() % 50);
    text.feed(word + (random() % 3 == 0 ? "\b;" : "") + "\n", now, sink);
  }
  text.finish(sink);
  for (const auto& [shown, ending] : sink.out) {
    for (const char c : shown.substr(0, shown.find(';') + 1)) seen += c;
  }
  CHECK(seen == expected);
}
