// Any history of a job of several nodes keeps what ddprun promises. A seed is the whole history.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <ctime>
#include <map>
#include <set>
#include <string>

#include <fmt/format.h>

#include "tests/sim/kept_seeds.hpp"
#include "tests/sim/sim_job.hpp"

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

/// These meet every cell of the core's table. More, or others, by DDPRUN_SIM_SEEDS=FIRST:COUNT or
/// FIRST:COUNT:STEP.
struct Seeds {
  std::uint64_t first = 300;
  std::uint64_t count = 300;
  std::uint64_t step = 1;
};

Seeds seeds() {
  Seeds seeds;
  const char* chosen = std::getenv("DDPRUN_SIM_SEEDS");
  if (chosen == nullptr) return seeds;
  char* colon = nullptr;
  seeds.first = std::strtoull(chosen, &colon, 10);
  seeds.count = *colon == ':' ? std::strtoull(colon + 1, &colon, 10) : 1;
  if (*colon == ':') seeds.step = std::strtoull(colon + 1, &colon, 10);
  return seeds;
}

double seconds(sim::Duration duration) { return std::chrono::duration<double>(duration).count(); }

/// What many histories have met: those in which nothing happens would show nothing.
struct Coverage {
  int histories = 0;
  int with_rounds = 0;  // more than one
  int rounds = 0;
  int restarts = 0;
  int culprits = 0;
  int told = 0;
  int mild = 0;
  int healed = 0;
  int formed_again = 0;
  int over_etcd = 0;
  int leaders = 0;
  sim::Duration slowest{0};
  std::set<std::pair<int, int>> cells;
  std::map<std::string, std::pair<int, int>> faults;  // how often, and in how many histories
  std::map<std::string, int> outcomes;
  double virtual_seconds = 0;
  double cpu_seconds = 0;
  double virtual_seconds_of_5 = 0;  // of jobs of 5 nodes
  double cpu_seconds_of_5 = 0;

  void add(const sim::History& history, double cpu);
  void print() const;
};

void Coverage::add(const sim::History& history, double cpu) {
  ++histories;
  with_rounds += history.rounds > 1 ? 1 : 0;
  rounds += history.rounds;
  restarts += history.restarts;
  culprits += history.culprits;
  told += history.told;
  mild += history.was_mild ? 1 : 0;
  healed += history.healed ? 1 : 0;
  formed_again += history.formed_again;
  over_etcd += history.was_over_etcd ? 1 : 0;
  leaders += history.leaders;
  slowest = std::max(slowest, history.slowest);
  cells.insert(history.cells.begin(), history.cells.end());
  for (const auto& [fault, times] : history.happened) {
    faults[fault].first += times;
    ++faults[fault].second;
  }
  constexpr const char* kOutcomes[] = {"succeeded", "failed", "cancelled"};
  ++outcomes[history.outcome ? kOutcomes[static_cast<int>(history.outcome->outcome)] : "unknown"];
  virtual_seconds += seconds(history.lasted);
  cpu_seconds += cpu;
  if (history.max_nodes != 5) return;
  virtual_seconds_of_5 += seconds(history.lasted);
  cpu_seconds_of_5 += cpu;
}

void Coverage::print() const {
  std::string text = fmt::format(
      "{} histories: {} rounds ({} histories with more than one), {} restarts, {} culprits "
      "checked\n",
      histories, rounds, with_rounds, restarts, culprits);
  text += "outcomes:";
  for (const auto& [outcome, count] : outcomes) text += fmt::format(" {} {},", outcome, count);
  text += fmt::format(" compared at {} agents\n", told);
  text += fmt::format(
      "without faults of workers or nodes: {}; faults ended before the job: {}, then {} rounds "
      "formed, within {:.1f} s\n",
      mild, healed, formed_again, seconds(slowest));
  text += fmt::format("over etcd: {}, with {} leaders one after the other\n", over_etcd, leaders);
  text += fmt::format("cells of the core's table: {}\n", cells.size());
  for (const auto& [fault, times] : faults)
    text += fmt::format("  {:20} {:7} times in {:6} histories\n", fault, times.first, times.second);
  const auto rate = [](double time, double cpu) { return cpu > 0 ? time / cpu : 0; };
  text += fmt::format(
      "{:.0f} virtual minutes in {:.1f} s of CPU: {:.0f} times real time, {:.0f} with 5 nodes\n",
      virtual_seconds / 60, cpu_seconds, rate(virtual_seconds, cpu_seconds),
      rate(virtual_seconds_of_5, cpu_seconds_of_5));
  std::fputs(text.c_str(), stdout);
}

double cpu_now() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace

TEST_CASE("any history of a job of several nodes keeps what must hold and ends") {
  Coverage coverage;
  const auto [first, histories, step] = seeds();
  for (std::uint64_t i = 0; i < histories; ++i) {
    const std::uint64_t seed = first + i * step;
    CAPTURE(seed);
    const double began = cpu_now();
    const sim::History history = sim::SimJob(seed, 10min).run();
    CAPTURE(history.violations);
    REQUIRE(history.violations.empty());
    coverage.add(history, cpu_now() - began);
  }
  coverage.print();
  if (coverage.histories < 300) return;
  const int count = coverage.histories;
  CHECK(coverage.with_rounds * 3 > count);
  CHECK(coverage.restarts * 3 > count);
  CHECK(coverage.rounds > 2 * count);
  CHECK(coverage.culprits * 10 > count);
  CHECK(coverage.formed_again * 10 > count);
  CHECK(coverage.over_etcd * 5 > count);
  CHECK(coverage.leaders * 2 > 3 * coverage.over_etcd);
  for (int state = 0; state < rdzv::kJobStates; ++state) {
    for (int kind = 0; kind < rdzv::kEventKinds; ++kind) {
      const auto response = rdzv::Membership::response(static_cast<rdzv::JobState>(state),
                                                       static_cast<rdzv::EventKind>(kind));
      CAPTURE(state, to_string(static_cast<rdzv::EventKind>(kind)));
      CHECK((response == "ignored" || coverage.cells.contains({state, kind})));
    }
  }
}

TEST_CASE("histories that have shown a bug show none") {
  for (const auto& [seed, showed] : sim::kKeptSeeds) {
    CAPTURE(seed, showed);
    const sim::History history = sim::SimJob(seed, 10min).run();
    CAPTURE(history.violations);
    CHECK(history.violations.empty());
  }
}

TEST_CASE("one seed is one history") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const sim::History once = sim::SimJob(seed, 2min).run();
    const sim::History again = sim::SimJob(seed, 2min).run();
    CHECK(once.hash == again.hash);
    CHECK(once.rounds == again.rounds);
  }
  CHECK(sim::SimJob(1, 2min).run().hash != sim::SimJob(2, 2min).run().hash);
}
