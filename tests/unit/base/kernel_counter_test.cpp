#include "base/small_file.hpp"

#include <catch2/catch.hpp>

using ddprun::counter_in;

TEST_CASE("a counter is the number behind its whole name") {
  CHECK(counter_in("low 0\noom 1\noom_kill 3\n", "oom_kill") == 3U);
  CHECK(counter_in("low 0\noom 1\noom_kill 3\n", "oom") == 1U);
  CHECK(counter_in("MemTotal:   1000 kB\nMemFree:  1 kB\n", "MemFree:") == 1U);
  CHECK(counter_in("VmPeak:\t    9 kB\nVmHWM:\t    7 kB\n", "VmHWM:") == 7U);
}

TEST_CASE("a line without a number is no counter") {
  CHECK_FALSE(counter_in("oom_kill", "oom_kill").has_value());
  CHECK_FALSE(counter_in("oom_kill ", "oom_kill").has_value());
  CHECK_FALSE(counter_in("oom_kill x", "oom_kill").has_value());
  CHECK_FALSE(counter_in("", "oom_kill").has_value());
}
