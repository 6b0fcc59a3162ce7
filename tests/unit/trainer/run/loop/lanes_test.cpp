// The team of threads of one worker.
#include "trainer/run/loop/lanes.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <stdexcept>

#include "tests/support/no_threads.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

TEST_CASE("work runs once on every lane, and run() returns when all are done") {
  for (const int count : {1, 2, 5}) {
    Lanes lanes(count);
    for (int turn = 0; turn < 100; ++turn) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(count));
      lanes.run([&](int lane) { ++runs[static_cast<std::size_t>(lane)]; });
      for (const auto& times : runs) CHECK(times == 1);
    }
  }
}

TEST_CASE("an exception on any lane comes out of run() after all have ended") {
  Lanes lanes(3);
  for (int thrower = 0; thrower < 3; ++thrower) {
    std::atomic<int> ended = 0;
    CHECK_THROWS_AS(lanes.run([&](int lane) {
      ++ended;
      if (lane == thrower) throw std::runtime_error("broken");
    }),
                    std::runtime_error);
    CHECK(ended == 3);
  }
  std::atomic<int> after = 0;
  lanes.run([&](int) { ++after; });
  CHECK(after == 3);
}

TEST_CASE("lanes that get no thread are refused with the option and the remedy") {
  const ddprun::test::NoThreads none;
  CHECK_THROWS_WITH(
      Lanes(4),
      "4 lanes (of --lanes or --replicas) need 3 threads: no thread can be started: Resource "
      "temporarily unavailable; raise the limit of processes (ulimit -u, pids.max)");
  CHECK_NOTHROW(Lanes(1));
}

}  // namespace
}  // namespace ddprun::trainer
