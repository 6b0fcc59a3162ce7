// Hosts that print 10 MB a second each, through a real ssh: no line is torn, lost or out of order.
#include <cstdio>
#include <string_view>

#include "tests/integration/launcher/ssh_hosts.hpp"

using namespace ddprun;
using namespace ddprun::test;

namespace {

/// Lines of many lengths, 30 MB of them; at the end, on stderr, how many and the MB a second.
constexpr const char* kPrinter = R"(
import os, sys, time
rank, size, count = os.environ["RANK"], 0, 0
began = time.monotonic()
while size < 30_000_000:
    lines = "".join(f"{rank} {count + i} {'x' * ((count + i) % 301)}.\n" for i in range(1000))
    count += 1000
    size += sys.stdout.write(lines)
    time.sleep(max(0, began + size / 10e6 - time.monotonic()))
sys.stdout.flush()
print(f"{count} lines, {size / 1e6 / (time.monotonic() - began):.1f} MB/s", file=sys.stderr)
)";

}  // namespace

TEST_CASE("eight hosts that print 10 MB a second each have whole lines, in their order") {
  SshHosts hosts;
  constexpr std::size_t kHosts = 8;
  auto settings = hosts.settings();
  settings.limit = std::chrono::minutes(5);
  const auto job = run(
      hosts.command({"--hosts=h[1-8]", "--log-policy=block"}, {"-c", kPrinter}, "/usr/bin/python3"),
      settings);
  INFO(job.err);
  REQUIRE(job.status == 0);
  CHECK(hosts.nothing_left());
  std::fprintf(stderr, "%s", job.err.c_str());
  std::vector<std::size_t> counts(kHosts);
  for (std::string_view rest = job.out; !rest.empty();) {
    const auto line = rest.substr(0, rest.find('\n'));
    REQUIRE(line.size() > 5);
    const auto rank = static_cast<std::size_t>(line[5] - '0');
    REQUIRE(rank < kHosts);
    const std::size_t number = counts[rank]++;
    const std::string name = std::to_string(rank);
    const std::string expected = "[rank" + name + "] " + name + " " + std::to_string(number) + " " +
                                 std::string(number % 301, 'x') + ".";
    if (line != expected) CHECK(line == expected);
    rest.remove_prefix(line.size() + 1);
  }
  for (std::size_t rank = 0; rank < kHosts; ++rank)
    CHECK(job.err.find("[rank" + std::to_string(rank) + "] " + std::to_string(counts[rank]) +
                       " lines, ") != std::string::npos);
}
