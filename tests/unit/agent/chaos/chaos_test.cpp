// The schedule of faults: the same seed, the same faults, however long the rounds and restarts are.
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "agent/chaos/chaos.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using agent::Chaos;
using agent::ChaosFault;
using agent::ChaosPlan;
using agent::ChaosStrike;

namespace {

using TimePoint = Chaos::TimePoint;

std::string told(const ChaosStrike& strike) {
  return fmt::format("{} {} {}", strike.number, to_string(strike.fault), strike.rank);
}

/// The first faults of a job. Each of its restarts takes `restart`; each fault is noticed `late`.
std::vector<std::string> faults_of(const ChaosPlan& plan, int count,
                                   Chaos::TimePoint::duration restart, TimePoint::duration late,
                                   int world_size = 4) {
  Chaos chaos(plan);
  TimePoint now{};
  std::uint64_t round = 0;
  std::vector<std::string> seen;
  chaos.round_runs(round, now);
  while (static_cast<int>(seen.size()) < count) {
    const auto due = chaos.deadline();
    if (!due) break;
    now = *due + late;
    const auto strike = chaos.strike(world_size, now);
    REQUIRE(strike.has_value());
    seen.push_back(told(*strike));
    if (strike->fault == ChaosFault::delay || strike->fault == ChaosFault::partition) continue;
    CHECK_FALSE(chaos.deadline().has_value());
    chaos.round_ends(now);
    now += restart;
    chaos.round_runs(++round, now);
  }
  return seen;
}

const ChaosPlan kPlan{
    7,
    {{ChaosFault::kill, 30s, 0s}, {ChaosFault::stop, 100s, 0s}, {ChaosFault::delay, 10s, 500ms}},
    {}};

}  // namespace

TEST_CASE("the same seed gives the same faults in the same order, however long restarts take") {
  const auto faults = faults_of(kPlan, 200, 1ms, 0ms);
  CHECK(faults.size() == 200);
  CHECK(faults == faults_of(kPlan, 200, 40s, 0ms));
  CHECK(faults == faults_of(kPlan, 200, 1ms, 3s));
  ChaosPlan other = kPlan;
  other.seed = 8;
  CHECK(faults != faults_of(other, 200, 1ms, 0ms));
  // The numbers of std::mt19937_64 are the same everywhere, so these are, too.
  CHECK(std::vector<std::string>(faults.begin(), faults.begin() + 3) ==
        std::vector<std::string>{"1 delay 3", "2 delay 2", "3 delay 2"});
}

TEST_CASE("faults come as often as they should, on all ranks") {
  Chaos chaos({3, {{ChaosFault::delay, 10s, 1s}}, {}});
  TimePoint now{};
  chaos.round_runs(0, now);
  std::vector<int> ranks(5);
  std::chrono::nanoseconds shortest = 1h;
  std::chrono::nanoseconds longest = 0s;
  for (int i = 0; i < 1000; ++i) {
    const auto due = *chaos.deadline();
    shortest = std::min<std::chrono::nanoseconds>(shortest, due - now);
    longest = std::max<std::chrono::nanoseconds>(longest, due - now);
    now = due;
    ++ranks[static_cast<std::size_t>(chaos.strike(5, now)->rank)];
  }
  CHECK(shortest >= 5s);
  CHECK(longest <= 15s);
  CHECK(now.time_since_epoch() > 9000s);
  CHECK(now.time_since_epoch() < 11000s);
  for (const int count : ranks) CHECK(count > 150);
}

TEST_CASE("time counts only while a round runs") {
  Chaos chaos({1, {{ChaosFault::kill, 10s, 0s}}, {}});
  CHECK_FALSE(chaos.deadline().has_value());
  TimePoint now{};
  chaos.round_runs(0, now);
  const auto first = *chaos.deadline() - now;
  now += 4s;
  chaos.round_ends(now);  // a worker failed by itself
  CHECK_FALSE(chaos.deadline().has_value());
  now += 1h;
  chaos.round_runs(1, now);
  CHECK(*chaos.deadline() - now == first - 4s);
  CHECK_FALSE(chaos.strike(2, now).has_value());  // too soon
}

TEST_CASE("a recovery lasts from the fault until the next round runs") {
  Chaos chaos({1, {{ChaosFault::kill, 10s, 0s}}, 2});
  TimePoint now{};
  chaos.round_runs(0, now);
  now = *chaos.deadline();
  REQUIRE(chaos.strike(1, now));
  chaos.round_runs(0, now + 1ms);  // its end is not seen yet
  CHECK_FALSE(chaos.deadline().has_value());
  chaos.round_ends(now + 2ms);
  now += 5ms;
  chaos.round_runs(1, now);
  CHECK(chaos.summary().recoveries == std::vector<std::chrono::nanoseconds>{5ms});
  CHECK(chaos.summary().faults.at(ChaosFault::kill) == 1);
  now = *chaos.deadline();
  REQUIRE(chaos.strike(1, now));
  chaos.round_runs(2, now + 3ms);
  CHECK(chaos.summary().recoveries == std::vector<std::chrono::nanoseconds>{3ms, 5ms});
  CHECK_FALSE(chaos.deadline().has_value());  // faults=2
}

TEST_CASE("a fault that finds no worker does not hold up the next one") {
  Chaos chaos({1, {{ChaosFault::kill, 10s, 0s}}, {}});
  TimePoint now{};
  chaos.round_runs(0, now);
  now = *chaos.deadline();
  REQUIRE(chaos.strike(1, now));
  chaos.missed(now);
  REQUIRE(chaos.deadline().has_value());
  CHECK(*chaos.deadline() > now);
  CHECK(chaos.summary().recoveries.empty());
}

TEST_CASE("ends of the service and partitions keep the order of all faults") {
  const ChaosPlan plan{9,
                       {{ChaosFault::kill, 30s, 0s},
                        {ChaosFault::service, 60s, 0s},
                        {ChaosFault::partition, 20s, 5s}},
                       {}};
  const auto faults = faults_of(plan, 100, 1ms, 0ms);
  CHECK(faults == faults_of(plan, 100, 40s, 0ms));
  CHECK(faults == faults_of(plan, 100, 1ms, 3s));
  std::set<std::string> kinds;
  for (const std::string& fault : faults) {
    const auto begin = fault.find(' ') + 1;
    kinds.insert(fault.substr(begin, fault.find(' ', begin) - begin));
  }
  CHECK(kinds == std::set<std::string>{"kill", "service", "partition"});
}

TEST_CASE("the end of the service ends a round, and its recovery counts") {
  Chaos chaos({1, {{ChaosFault::service, 10s, 0s}}, {}});
  TimePoint now{};
  chaos.round_runs(0, now);
  now = *chaos.deadline();
  REQUIRE(chaos.strike(4, now));
  CHECK_FALSE(chaos.deadline().has_value());
  chaos.round_ends(now + 1s);
  chaos.round_runs(1, now + 4s);
  CHECK(chaos.summary().faults.at(ChaosFault::service) == 1);
  CHECK(chaos.summary().recoveries == std::vector<std::chrono::nanoseconds>{4s});
}

TEST_CASE("time stands still while a node is cut off, also in the next round") {
  Chaos chaos({1, {{ChaosFault::partition, 10s, 8s}}, {}});
  TimePoint now{};
  chaos.round_runs(0, now);
  now = *chaos.deadline();
  const auto struck_at = now;
  REQUIRE(chaos.strike(4, now)->length == 8s);
  const auto next = *chaos.deadline();
  CHECK(next >= struck_at + 8s + 5s);
  chaos.round_runs(0, now + 1s);  // as after any event
  CHECK(*chaos.deadline() == next);
  chaos.round_ends(struck_at + 3s);
  CHECK_FALSE(chaos.deadline().has_value());
  chaos.round_runs(1, struck_at + 4s);
  CHECK(*chaos.deadline() == next);
}

TEST_CASE("a partition counts as recovered from only where it has ended the round") {
  Chaos chaos({1, {{ChaosFault::partition, 100s, 2s}}, {}});
  TimePoint now{};
  chaos.round_runs(0, now);
  now = *chaos.deadline();
  REQUIRE(chaos.strike(4, now));
  const bool is_by_partition = GENERATE(true, false);
  now += is_by_partition ? 4s : 5s;  // twice its length, and more
  chaos.round_ends(now);
  chaos.round_ends(now + 30s);  // once more, as after any event
  chaos.round_runs(1, now + 31s);
  CHECK(chaos.summary().faults.at(ChaosFault::partition) == 1);
  CHECK(chaos.summary().recoveries == (is_by_partition ? std::vector<std::chrono::nanoseconds>{35s}
                                                       : std::vector<std::chrono::nanoseconds>{}));
}

TEST_CASE("a rendezvous that another node has killed before our time counts as the next fault") {
  const ChaosPlan plan{3, {{ChaosFault::service, 10s, 0s}, {ChaosFault::kill, 10000s, 0s}}, {}};
  Chaos ahead(plan);
  Chaos behind(plan);
  TimePoint now{};
  ahead.round_runs(0, now);
  behind.round_runs(0, now + 1s);
  now = *ahead.deadline();
  const auto first = ahead.strike(4, now);
  REQUIRE(first.has_value());
  for (Chaos* chaos : {&ahead, &behind}) {
    chaos->round_ends(now);  // it was over for both before the one that is behind came to it
    chaos->service_restarted(4);
    chaos->round_runs(1, now + 2s);
    CHECK(chaos->summary().faults.at(ChaosFault::service) == 1);
    CHECK(chaos->summary().recoveries == std::vector<std::chrono::nanoseconds>{2s});
  }
  REQUIRE(ahead.deadline() == behind.deadline());
  now = *ahead.deadline();
  CHECK(told(*ahead.strike(4, now)) == told(*behind.strike(4, now)));
}

TEST_CASE("a rendezvous that restarts by itself is no fault of ours") {
  const ChaosPlan plan{3, {{ChaosFault::service, 10000s, 0s}, {ChaosFault::kill, 10s, 0s}}, {}};
  Chaos chaos(plan);
  TimePoint now{};
  chaos.round_runs(0, now);
  chaos.round_ends(now + 1s);
  chaos.service_restarted(4);
  chaos.round_runs(1, now + 2s);
  CHECK(chaos.summary().recoveries.empty());
  CHECK(chaos.strike(4, *chaos.deadline())->number == 1);
}
