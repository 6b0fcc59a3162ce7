#include "agent/events/ledger.hpp"

#include <catch2/catch.hpp>
#include <numeric>
#include <random>

using namespace ddprun::agent;
using namespace std::chrono_literals;
using Stage = Ledger::Stage;
using std::chrono::nanoseconds;

namespace {

const Ledger::TimePoint kBegin{100s};

nanoseconds of(const SpentTimes& times, Spent kind) {
  return times[static_cast<std::size_t>(kind)];
}
nanoseconds sum(const SpentTimes& times) {
  return std::accumulate(times.begin(), times.end(), nanoseconds(0));
}

/// A ledger whose first round runs from second 3 on.
Ledger running() {
  Ledger ledger(kBegin);
  ledger.enter(Stage::starting, kBegin + 2s);
  ledger.enter(Stage::running, kBegin + 3s);
  return ledger;
}

Ledger::RoundClock clock_at(Ledger::TimePoint first, std::uint64_t first_step, std::uint64_t step) {
  return {.first_step = first_step, .step = step, .first_at = first, .reached_at = first};
}

}  // namespace

TEST_CASE("without steps all time of workers is training, and what comes behind a round is lost") {
  Ledger ledger = running();
  ledger.enter(Stage::stopping, kBegin + 10s);
  ledger.enter(Stage::waiting, kBegin + 11s);
  ledger.enter(Stage::starting, kBegin + 13s);
  ledger.enter(Stage::running, kBegin + 14s);
  ledger.enter(Stage::finishing, kBegin + 20s);
  const LedgerEntries entries = ledger.entries(kBegin + 21s, {});
  CHECK(of(entries.spent, Spent::waiting) == 4s);
  CHECK(of(entries.spent, Spent::starting) == 2s);
  CHECK(of(entries.spent, Spent::training) == 13s);
  CHECK(of(entries.spent, Spent::stopping) == 2s);
  CHECK(sum(entries.spent) == 21s);
  CHECK(of(entries.lost, Spent::waiting) == 2s);
  CHECK(of(entries.lost, Spent::starting) == 1s);
  CHECK(of(entries.lost, Spent::stopping) == 1s);
  CHECK(sum(entries.lost) == 4s);
  CHECK_FALSE(entries.has_steps);
}

TEST_CASE(
    "with steps the start ends with the first one, and steps that were begun before are lost") {
  Ledger ledger = running();
  ledger.enter(Stage::stopping, kBegin + 10s, clock_at(kBegin + 5s, 0, 50));
  CHECK(ledger.reached_step() == 50);
  ledger.enter(Stage::running, kBegin + 11s);
  auto clock = clock_at(kBegin + 12s, 20, 70);
  clock.reached_at = kBegin + 15s;
  clock.saving = 500ms;
  ledger.enter(Stage::finishing, kBegin + 20s, clock);
  const LedgerEntries entries = ledger.entries(kBegin + 20s, {});
  CHECK(of(entries.spent, Spent::starting) == 4s);
  CHECK(of(entries.spent, Spent::again) == 3s);
  CHECK(of(entries.spent, Spent::saving) == 500ms);
  CHECK(of(entries.spent, Spent::training) == 9500ms);
  CHECK(sum(entries.spent) == 20s);
  CHECK(of(entries.lost, Spent::starting) == 1s);
  CHECK(of(entries.lost, Spent::again) == 3s);
  CHECK(entries.steps_again == 30);
  CHECK(entries.has_steps);
  CHECK(ledger.reached_step() == 70);
}

TEST_CASE("a round that fails again before it has reached the step is all done again") {
  Ledger ledger = running();
  ledger.enter(Stage::stopping, kBegin + 10s, clock_at(kBegin + 3s, 0, 50));
  ledger.enter(Stage::running, kBegin + 10s);
  auto clock = clock_at(kBegin + 10s, 20, 30);
  clock.reached_at.reset();
  ledger.enter(Stage::stopping, kBegin + 12s, clock);
  const LedgerEntries entries = ledger.entries(kBegin + 12s, {});
  CHECK(of(entries.spent, Spent::again) == 2s);
  CHECK(entries.steps_again == 10);
  CHECK(ledger.reached_step() == 50);
}

TEST_CASE("a hang counts since its last sign of life, and a pause is nothing that workers did") {
  Ledger ledger = running();
  ledger.enter(Stage::paused, kBegin + 5s);
  ledger.enter(Stage::running, kBegin + 8s);
  auto clock = clock_at(kBegin + 3s, 0, 9);
  clock.hung_since = kBegin + 9s;
  ledger.enter(Stage::stopping, kBegin + 12s, clock);
  LedgerEntries entries = ledger.entries(kBegin + 12s, {});
  CHECK(of(entries.spent, Spent::paused) == 3s);
  CHECK(of(entries.spent, Spent::training) == 3s);
  CHECK(of(entries.spent, Spent::hung) == 3s);
  CHECK(of(entries.lost, Spent::hung) == 3s);
  CHECK(sum(entries.spent) == 12s);
  // One that hung since before the pause.
  Ledger other = running();
  other.enter(Stage::paused, kBegin + 5s);
  clock.hung_since = kBegin + 4s;
  other.enter(Stage::stopping, kBegin + 8s, clock);
  entries = other.entries(kBegin + 8s, {});
  CHECK(of(entries.spent, Spent::hung) == 1s);
  CHECK(of(entries.spent, Spent::paused) == 3s);
}

TEST_CASE("while a round runs, its part so far is told, and nothing changes by that") {
  const Ledger ledger = running();
  const auto clock = clock_at(kBegin + 4s, 0, 3);
  for (int i = 0; i < 2; ++i) {
    const LedgerEntries entries = ledger.entries(kBegin + 10s, clock);
    CHECK(of(entries.spent, Spent::starting) == 2s);
    CHECK(of(entries.spent, Spent::training) == 6s);
    CHECK(sum(entries.lost) == 0s);
  }
}

TEST_CASE("whatever workers say and in whatever order things come, the parts sum to the whole") {
  std::mt19937_64 random(7);
  const auto below = [&](std::uint64_t most) { return random() % most; };
  for (int job = 0; job < 2000; ++job) {
    Ledger ledger(kBegin);
    auto now = kBegin;
    const auto clock = [&]() -> std::optional<Ledger::RoundClock> {
      if (below(3) == 0) return std::nullopt;
      const auto any_time = [&] {
        if (below(4) == 0)
          return Ledger::TimePoint(nanoseconds(static_cast<std::int64_t>(random())));
        return kBegin + nanoseconds(below(40'000'000'000)) - 10s;
      };
      Ledger::RoundClock any{.first_step = random(), .step = random(), .first_at = any_time()};
      if (below(2) == 0) any.reached_at = any_time();
      if (below(2) == 0) any.hung_since = any_time();
      if (below(2) == 0) any.saving = nanoseconds(random());  // may be negative
      return any;
    };
    for (int i = 0; i < 30; ++i) {
      now += nanoseconds(below(2'000'000'000));
      ledger.enter(static_cast<Stage>(below(7)), now, clock());
      const LedgerEntries entries = ledger.entries(now + 1ns, clock());
      CHECK(sum(entries.spent) == now + 1ns - kBegin);
      for (std::size_t kind = 0; kind < kSpentKinds; ++kind) {
        CHECK(entries.spent[kind] >= 0ns);
        CHECK(entries.lost[kind] <= entries.spent[kind]);
      }
    }
  }
}
