#include <algorithm>
#include <string_view>

#include "agent/progress/file_timers.hpp"
#include "base/assert.hpp"
#include "tests/fuzz/entries.hpp"

namespace ddprun::test {
namespace {

constexpr agent::FileTimers::Time kNow{std::chrono::hours(490'000)};
constexpr agent::FileTimers::Time kEnd = agent::FileTimers::Time::max();

struct Read {
  agent::FileTimers timers;
  bool good = true;
};

Read read_in_pieces(std::string_view bytes, std::size_t piece) {
  Read read;
  for (std::size_t at = 0; at < bytes.size(); at += piece)
    read.good = read.timers.feed(bytes.substr(at, piece), kNow) && read.good;
  return read;
}

}  // namespace

void fuzz_timer_file(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  Read whole = read_in_pieces(bytes, std::max<std::size_t>(bytes.size(), 1));
  Read cut = read_in_pieces(bytes, 1U + data[0] % 16U);
  DDPRUN_ASSERT(whole.good == cut.good, "cuts change nothing");
  DDPRUN_ASSERT(whole.timers.next() == cut.timers.next(), "cuts change nothing");
  const auto expired = whole.timers.expired(kEnd);
  DDPRUN_ASSERT(expired == cut.timers.expired(kEnd), "cuts change nothing");
  DDPRUN_ASSERT(!whole.timers.next(), "in the end all have expired");
  for (const auto& timer : expired) {
    DDPRUN_ASSERT(timer.pid > 0 && timer.signal > 0, "a process and a signal");
    for (const char c : timer.scope)
      DDPRUN_ASSERT(c >= ' ' && c <= '~', "a scope can be shown anywhere");
  }
}

}  // namespace ddprun::test
