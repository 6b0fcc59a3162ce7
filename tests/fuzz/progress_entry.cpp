#include <string_view>

#include "agent/progress/progress_page.hpp"
#include "agent/progress/stack_methods.hpp"
#include "base/assert.hpp"
#include "tests/fuzz/entries.hpp"

namespace ddprun::test {

void fuzz_progress_page(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto reading = agent::parse_progress_page(bytes);
  DDPRUN_ASSERT(!reading.page || reading.problem.empty(), "a page has no problem");
  DDPRUN_ASSERT(!reading.page || size >= agent::kProgressPageBytes, "a page is whole");
  if (reading.page) {
    DDPRUN_ASSERT(reading.page->phase.size() <= agent::kPhaseBytesMax, "a phase has its limit");
    for (const char c : reading.page->phase)
      DDPRUN_ASSERT(c >= ' ' && c <= '~' && c != '"', "a phase can be shown anywhere");
  }
  for (const std::string& line : agent::stack_lines(bytes)) {
    DDPRUN_ASSERT(!line.empty() && line.find('\x1b') == std::string::npos,
                  "a line of stacks can be shown anywhere");
  }
}

}  // namespace ddprun::test
