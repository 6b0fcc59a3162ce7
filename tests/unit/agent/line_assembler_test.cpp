#include "agent/streams/line_assembler.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

using ddprun::agent::kLineBytesMax;
using ddprun::agent::LineAssembler;
using ddprun::agent::LineEnding;

namespace {

using Lines = std::vector<std::pair<std::string, LineEnding>>;

Lines assemble(const std::vector<std::string>& pieces, bool flush = true) {
  LineAssembler lines;
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
    Lines out;
  } sink;
  for (const std::string& piece : pieces) lines.feed(piece, sink);
  if (flush) lines.flush(sink);
  return sink.out;
}

}  // namespace

TEST_CASE("a line is given when its newline has come, not before") {
  CHECK(assemble({"hel", "lo"}, false).empty());
  CHECK(assemble({"hel", "lo\nwor"}, false) == Lines{{"hello", LineEnding::newline}});
  CHECK(assemble({"a\n\nb\n"}) ==
        Lines{{"a", LineEnding::newline}, {"", LineEnding::newline}, {"b", LineEnding::newline}});
}

TEST_CASE("the end of the stream gives what has no newline") {
  CHECK(assemble({"a\nb"}) == Lines{{"a", LineEnding::newline}, {"b", LineEnding::none}});
  CHECK(assemble({""}).empty());
}

TEST_CASE("a carriage return ends a state of a progress bar, with a newline it ends the line") {
  CHECK(assemble({"10%\r20%\r\n"}) ==
        Lines{{"10%", LineEnding::carriage_return}, {"20%", LineEnding::newline}});
  CHECK(assemble({"10%\r", "\n"}) == Lines{{"10%", LineEnding::newline}});
  CHECK(assemble({"10%\r", "20%"}) ==
        Lines{{"10%", LineEnding::carriage_return}, {"20%", LineEnding::none}});
  CHECK(assemble({"\r\r\n"}) ==
        Lines{{"", LineEnding::carriage_return}, {"", LineEnding::newline}});
  CHECK(assemble({"end\r"}) == Lines{{"end", LineEnding::carriage_return}});
}

TEST_CASE("bytes that are no text pass through") {
  const std::string bytes("a\0b\xff\n", 5);
  CHECK(assemble({bytes}) == Lines{{std::string("a\0b\xff", 4), LineEnding::newline}});
}

TEST_CASE("a line over the limit comes in pieces and loses nothing") {
  const std::string text(kLineBytesMax * 2 + 10, 'x');
  const Lines lines = assemble({text + "\nafter\n"});
  REQUIRE(lines.size() == 4);
  CHECK(lines[0] == std::pair(std::string(kLineBytesMax, 'x'), LineEnding::none));
  CHECK(lines[2] == std::pair(std::string(10, 'x'), LineEnding::newline));
  CHECK(lines[3].first == "after");
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
    CHECK(assemble(pieces) == assemble({text}));
  }
}
