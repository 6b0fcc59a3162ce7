// Ends, durations and sizes as text.
#include "base/describe.hpp"

#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>

using namespace ddprun;
using namespace std::chrono_literals;

TEST_CASE("an exit is described by its code or its signal") {
  CHECK(describe(ExitStatus{false, 3, false}) == "exited with code 3");
  CHECK(describe(ExitStatus{true, SIGSEGV, true}) == "killed by SIGSEGV (signal 11, core dumped)");
  CHECK(describe(ExitStatus{true, SIGRTMIN + 3, false}) ==
        "killed by SIGRTMIN+3 (signal " + std::to_string(SIGRTMIN + 3) + ")");
}

#if __GLIBC_PREREQ(2, 32)  // sigabbrev_np
TEST_CASE("every signal has the name that glibc has for it") {
  for (int signal = 0; signal <= SIGRTMAX + 1; ++signal) {
    CAPTURE(signal);
    const char* name = sigabbrev_np(signal);
    if (name != nullptr) {
      CHECK(signal_name(signal) == std::string("SIG") + name);
    } else if (signal < SIGRTMIN || signal > SIGRTMAX) {
      CHECK(signal_name(signal) == "signal " + std::to_string(signal));
    }
  }
}
#endif

TEST_CASE("a duration is described in the unit that a reader needs") {
  CHECK(describe(0ns) == "0 ms");
  CHECK(describe(999ms) == "999 ms");
  CHECK(describe(1s) == "1.0 s");
  CHECK(describe(125s) == "2 min 5 s");
  CHECK(describe(3h + 5min) == "3 h 5 min");
}

TEST_CASE("an instant is described in UTC to the millisecond") {
  const std::chrono::system_clock::time_point epoch{};
  CHECK(describe(epoch) == "1970-01-01T00:00:00.000Z");
  CHECK(describe(epoch + 1'769'860'800s + 123ms) == "2026-01-31T12:00:00.123Z");
  CHECK(describe(epoch - 1ms) == "1969-12-31T23:59:59.999Z");
}

TEST_CASE("bytes are described in the unit that a reader needs") {
  CHECK(describe_bytes(0) == "0 KiB");
  CHECK(describe_bytes(1023 * 1024) == "1023 KiB");
  CHECK(describe_bytes(1024 * 1024) == "1 MiB");
  CHECK(describe_bytes(1023ULL << 20) == "1023 MiB");
  CHECK(describe_bytes(1ULL << 30) == "1.0 GiB");
  CHECK(describe_bytes(13'314'000'000) == "12.4 GiB");
}
