#include "agent/progress/slow_ranks.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

using namespace ddprun::agent;
using namespace std::chrono_literals;

namespace {

/// Workers in lockstep: each step lasts as long as the slowest needs, for whom the others wait.
struct Lockstep {
  explicit Lockstep(std::vector<std::chrono::milliseconds> busy) : busy_times(std::move(busy)) {
    workers.resize(busy_times.size());
  }

  /// Some seconds later.
  std::vector<std::optional<WorkDone>> after(std::chrono::seconds time) {
    for (const auto end = now + time; now < end;) {
      std::vector<std::chrono::nanoseconds> busy;
      for (const auto usual : busy_times) busy.push_back(usual + noise());
      const auto longest = *std::max_element(busy.begin(), busy.end()) + 2ms;
      now += longest;
      for (std::size_t i = 0; i < workers.size(); ++i) {
        workers[i].step += 1;
        workers[i].at = now;
        workers[i].not_busy += longest - busy[i];
      }
    }
    return {workers.begin(), workers.end()};
  }
  std::chrono::nanoseconds noise() {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(random() % 10'000'000)) - 5ms;
  }

  std::vector<std::chrono::milliseconds> busy_times;
  std::vector<WorkDone> workers;
  std::chrono::nanoseconds now{0};
  std::mt19937_64 random{1};
};

/// The looks until one is found slow; none: not within 100 looks.
std::optional<int> looks_until_found(Lockstep& job, SlowRanks& ranks, int slow_rank) {
  for (int look = 1; look <= 100; ++look) {
    for (const SlowRank& found : ranks.look(job.after(SlowRanks::kLookEvery))) {
      CHECK(found.local_rank == slow_rank);
      return look;
    }
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE("a worker whose steps take 1.2 times as long is found within 30 seconds") {
  for (const std::size_t count : {2U, 3U, 8U}) {
    Lockstep job(std::vector<std::chrono::milliseconds>(count, 50ms));
    SlowRanks ranks;
    for (int i = 0; i < 10; ++i) CHECK(ranks.look(job.after(SlowRanks::kLookEvery)).empty());
    job.busy_times.back() = 60ms;
    const auto looks = looks_until_found(job, ranks, static_cast<int>(count) - 1);
    REQUIRE(looks.has_value());
    CHECK(*looks * SlowRanks::kLookEvery <= 25s);  // it may have begun just after a look
  }
}

TEST_CASE("how slow it is, is told by the others' median") {
  Lockstep job({40ms, 42ms, 80ms, 41ms});
  SlowRanks ranks;
  std::vector<SlowRank> found;
  for (int i = 0; i < 8; ++i) found = ranks.look(job.after(SlowRanks::kLookEvery));
  REQUIRE(found.size() == 1);
  CHECK(found[0].local_rank == 2);
  CHECK(found[0].factor == Approx(80.0 / 41).epsilon(0.05));
  CHECK(std::chrono::duration<double>(found[0].step_time).count() == Approx(0.080).epsilon(0.05));
  CHECK(std::chrono::duration<double>(found[0].others_time).count() == Approx(0.041).epsilon(0.05));
  job.busy_times[2] = 41ms;
  for (int i = 0; i < 8; ++i) found = ranks.look(job.after(SlowRanks::kLookEvery));
  CHECK(found.empty());
}

TEST_CASE("equal workers are never called slow, nor one that is slow for a moment") {
  Lockstep job({50ms, 52ms, 48ms, 50ms});
  SlowRanks ranks;
  for (int i = 0; i < 1000; ++i) {
    job.busy_times[1] = i % 50 == 0 ? 100ms : 52ms;
    CHECK(ranks.look(job.after(SlowRanks::kLookEvery)).empty());
  }
}

TEST_CASE("long steps take longer to be judged") {
  Lockstep job({30s, 40s});
  SlowRanks ranks;
  const auto looks = looks_until_found(job, ranks, 1);
  REQUIRE(looks.has_value());
  CHECK(*looks >= 5);
}

TEST_CASE("what is not known, or too few steps, names nobody") {
  Lockstep job({50ms, 100ms, 50ms});
  SlowRanks ranks;
  for (int i = 0; i < 20; ++i) {
    auto workers = job.after(SlowRanks::kLookEvery);
    workers[0].reset();
    workers[2].reset();
    CHECK(ranks.look(workers).empty());
  }
  SlowRanks few;
  std::vector<std::optional<WorkDone>> workers{WorkDone{}, WorkDone{}};
  for (int i = 0; i < 20; ++i) {
    for (auto& worker : workers) worker->at += 5s;
    workers[0]->not_busy += 4s;
    CHECK(few.look(workers).empty());
  }
  // A worker that was replaced counts from 0 again, and its clock may say anything.
  SlowRanks odd;
  for (int i = 0; i < 20; ++i) {
    workers[0] = WorkDone{100U - static_cast<std::uint64_t>(i), -5s * i, 1h * (i % 3)};
    workers[1]->step += 10;
    workers[1]->at += 5s;
    CHECK(odd.look(workers).empty());
  }
  CHECK(odd.look({}).empty());
}
