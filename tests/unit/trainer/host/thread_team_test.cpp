#include "trainer/host/thread_team.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstddef>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

using ddprun::trainer::ThreadTeam;

TEST_CASE("each piece is computed once, however many there are for a thread") {
  const int threads = GENERATE(1, 2, 3);
  const int pieces = GENERATE(0, 1, 2, 3, 7);
  ThreadTeam team(threads);
  CHECK(team.threads() == threads);
  std::vector<std::atomic<int>> calls(static_cast<std::size_t>(pieces));
  team.run(pieces, [&](int i) { ++calls.at(static_cast<std::size_t>(i)); });
  for (const auto& count : calls) CHECK(count == 1);
}

TEST_CASE("as many threads as asked for compute at the same time, the calling one among them") {
  constexpr int kThreads = 3;
  ThreadTeam team(kThreads);
  std::mutex mutex;
  std::set<std::thread::id> ids;
  std::atomic<int> arrived{0};
  team.run(kThreads, [&](int) {
    ++arrived;
    while (arrived < kThreads) std::this_thread::yield();
    const std::lock_guard lock(mutex);
    ids.insert(std::this_thread::get_id());
  });
  CHECK(ids.size() == kThreads);
  CHECK(ids.count(std::this_thread::get_id()) == 1);
}

TEST_CASE("a run sees what was written before it, and its caller what the pieces have written") {
  ThreadTeam team(2);
  std::vector<int> values(2);
  for (int round = 0; round < 10'000; ++round) {
    values[0] = values[1] = round;
    team.run(2, [&](int i) { values[static_cast<std::size_t>(i)] += i + 1; });
    REQUIRE(values == std::vector{round + 1, round + 2});
  }
}

TEST_CASE("a run from inside a piece is computed by the thread of that piece") {
  ThreadTeam team(2);
  CHECK_FALSE(ThreadTeam::inside());
  std::vector<int> sums(2);
  std::atomic<bool> elsewhere{false};
  team.run(2, [&](int i) {
    if (!ThreadTeam::inside()) elsewhere = true;
    const auto self = std::this_thread::get_id();
    team.run(4, [&](int j) {
      if (std::this_thread::get_id() != self) elsewhere = true;
      sums[static_cast<std::size_t>(i)] += j;
    });
  });
  CHECK_FALSE(elsewhere);
  CHECK(sums == std::vector{6, 6});
  CHECK_FALSE(ThreadTeam::inside());
}
