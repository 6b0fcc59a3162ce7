#include <algorithm>
#include <string>
#include <string_view>

#include "agent/streams/console.hpp"
#include "agent/streams/stream_text.hpp"
#include "base/assert.hpp"
#include "tests/fuzz/entries.hpp"

namespace ddprun::test {
namespace {

using agent::StreamText;
using Clock = StreamText::Clock;

/// What our console writes to a terminal: lines, `\r`, styles, links, and nothing else.
void check_harmless(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto c = static_cast<unsigned char>(bytes[0]);
    std::size_t taken = 1;
    if (c == 0x1b) {
      const auto end = bytes.find_first_not_of("0123456789;:", 2);
      const bool link = bytes.starts_with("\x1b]8;") || bytes.starts_with("\x1b\\");
      const bool style = bytes.starts_with("\x1b[") && end < bytes.size() && bytes[end] == 'm';
      DDPRUN_ASSERT(link || style, "escape sequences are styles and links");
      taken = 2;
    } else {
      DDPRUN_ASSERT(c >= 0x20 || c == '\n' || c == '\t' || c == '\a', "no control character");
      DDPRUN_ASSERT(c != 0x7f, "no control character");
      DDPRUN_ASSERT(c != 0xc2 || bytes.size() < 2 || static_cast<unsigned char>(bytes[1]) >= 0xa0 ||
                        static_cast<unsigned char>(bytes[1]) < 0x80,
                    "no control character of the other set");
    }
    bytes.remove_prefix(taken);
  }
}

struct Sink {
  void lines(std::string_view block) const {
    DDPRUN_ASSERT(block.ends_with('\n'), "blocks are whole lines");
    for (; !block.empty(); block.remove_prefix(block.find('\n') + 1))
      line(block.substr(0, block.find('\n')), agent::LineEnding::newline);
  }
  void line(std::string_view text, agent::LineEnding ending) const {
    agent::Console console({.columns = 80, .rows = 24, .terminal = true});
    agent::LogBuffer shown;
    console.add(0, "[rank0] ", text, ending, shown);
    if (ending == agent::LineEnding::newline) check_harmless(shown.view());
    DDPRUN_ASSERT(text.find('\n') == std::string_view::npos, "a line has no newline");
    DDPRUN_ASSERT(agent::stays_in_line(text), "a line moves no cursor");
  }
  void redrawn() const {}
};

void feed(std::string_view bytes, std::size_t piece, int columns) {
  StreamText text;
  if (columns > 0) text.set_terminal(columns);
  Sink sink;
  Clock::time_point now{};
  while (!bytes.empty()) {
    text.feed(bytes.substr(0, piece), now, sink);
    bytes.remove_prefix(std::min(piece, bytes.size()));
    now += std::chrono::milliseconds(7 * piece);
    text.settle(now, sink);
    for (const std::string& row : text.live(10)) {
      DDPRUN_ASSERT(agent::text_columns(row) <= 10, "a row has its width");
      DDPRUN_ASSERT(agent::stays_in_line(row), "a row moves no cursor");
    }
  }
  text.finish(sink);
  DDPRUN_ASSERT(text.live(10).empty(), "the end leaves nothing");
}

}  // namespace

void fuzz_stream_text(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  feed(bytes, std::max<std::size_t>(1, size), data[0] % 40);
  feed(bytes, 1 + data[0] % 5, data[0] % 40);
}

}  // namespace ddprun::test
