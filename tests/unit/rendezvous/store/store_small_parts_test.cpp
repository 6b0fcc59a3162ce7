// The small parts of the store's shell that need no socket: held-back log lines, the table of
// ports.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "rendezvous/store/port_owner.hpp"
#include "rendezvous/store/warning_limiter.hpp"

using ddprun::rdzv::find_port;
using ddprun::rdzv::WarningLimiter;
using namespace std::chrono_literals;

namespace {

const WarningLimiter::Instant kStart = WarningLimiter::Instant{} + 1000s;

const std::string kTable =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n"
    "   0: 0100007F:733C 0100007F:A001 01 00000000:00000000 00:00000000 00000000  1000        0 "
    "111 1 x\n"
    "   1: 0100007F:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 "
    "222 1 x\n"
    "   2: 0100007F:A001 0100007F:733C 01 00000000:00000000 00:00000000 00000000  1002        0 "
    "333 1 x\n"
    "   3: 0100007F:B002 0100007F:733C 06 00000000:00000000 03:00000000 00000000     0        0 0 "
    "3 x\n";

}  // namespace

TEST_CASE("the first lines of a kind are let through and the rest of the period is counted") {
  WarningLimiter limiter(2);
  for (std::uint64_t i = 0; i < WarningLimiter::kLinesMax; ++i) {
    REQUIRE(limiter.admit(0, kStart));
    limiter.remember(0, "line " + std::to_string(i));
  }
  CHECK_FALSE(limiter.holding());
  CHECK_FALSE(limiter.due().has_value());
  CHECK_FALSE(limiter.admit(0, kStart + 1s));
  CHECK_FALSE(limiter.admit(0, kStart + 2s));
  CHECK(limiter.admit(1, kStart + 2s));  // another kind has its own lines
  REQUIRE(limiter.holding());
  CHECK(limiter.due() == kStart + WarningLimiter::kPeriod);
  CHECK(limiter.reports(kStart + 9s).empty());
  CHECK(limiter.reports(kStart + WarningLimiter::kPeriod) ==
        std::vector<std::string>{"and 2 more like it: line 9"});
  CHECK_FALSE(limiter.holding());
  CHECK(limiter.admit(0, kStart + WarningLimiter::kPeriod));
}

TEST_CASE("lines that are far apart are all let through") {
  WarningLimiter limiter(1);
  for (int i = 0; i < 100; ++i) REQUIRE(limiter.admit(0, kStart + i * WarningLimiter::kPeriod));
  CHECK_FALSE(limiter.holding());
}

TEST_CASE("a continuous flood is one line for each period") {
  WarningLimiter limiter(1);
  std::size_t lines = 0;
  std::size_t reports = 0;
  for (auto now = kStart; now < kStart + 6 * WarningLimiter::kPeriod; now += 1ms) {
    lines += limiter.admit(0, now) ? 1 : 0;
    if (limiter.due() && *limiter.due() <= now) reports += limiter.reports(now).size();
  }
  CHECK(lines <= 6 * WarningLimiter::kLinesMax);
  CHECK(reports >= 5);
  CHECK(reports <= 6);
}

TEST_CASE("the socket that listens on a port is found before one that is connected from it") {
  const auto found = find_port(kTable, 0x733C);
  REQUIRE(found.has_value());
  CHECK(found->inode == 222);
  CHECK(found->uid == 1001);
  CHECK(found->listening);
  const auto connected = find_port(kTable, 0xA001);
  REQUIRE(connected.has_value());
  CHECK(connected->inode == 333);
  CHECK_FALSE(connected->listening);
}

TEST_CASE("a port without a socket has no owner") {
  CHECK_FALSE(find_port(kTable, 1).has_value());
  CHECK_FALSE(find_port(kTable, 0xB002).has_value());  // no process has it any more
  CHECK_FALSE(find_port("", 1).has_value());
  CHECK_FALSE(find_port("0: zz:zz 1 2 3 4 5 6 7 8\n1: 0100007F:0001 x 0A\n", 1).has_value());
}
