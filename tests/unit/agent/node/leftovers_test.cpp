#include "agent/node/node_facts.hpp"

#include <catch2/catch.hpp>

using namespace std::chrono_literals;
using ddprun::agent::Leftovers;
using Step = Leftovers::Step;

namespace {

const Leftovers::Clock::time_point kEnd{1h};

}  // namespace

TEST_CASE("a round without leftover processes is over at once") {
  Leftovers left;
  CHECK_FALSE(left.begun());
  CHECK(left.begin(false, 10s, kEnd) == Step::over);
  CHECK(left.over());
  CHECK_FALSE(left.deadline().has_value());
  CHECK(left.begin(true, 10s, kEnd) == Step::nothing);  // it stays over
}

TEST_CASE("leftover processes have a moment then get SIGTERM then SIGKILL") {
  Leftovers left;
  CHECK(left.begin(true, 10s, kEnd) == Step::nothing);
  CHECK(left.waiting());
  CHECK(left.deadline() == kEnd + Leftovers::kSettle);
  CHECK(left.deadline_passed(kEnd) == Step::nothing);
  const auto told = kEnd + Leftovers::kSettle;
  CHECK(left.deadline_passed(told) == Step::terminate);
  CHECK(left.deadline() == told + 10s);
  CHECK(left.patience() == 10s);
  CHECK(left.deadline_passed(told + 9s) == Step::nothing);
  CHECK(left.deadline_passed(told + 10s) == Step::kill);
  CHECK(left.killing());
  CHECK_FALSE(left.over());
  left.killed();
  CHECK(left.over());
}

TEST_CASE("the round ends when leftover processes end by themselves") {
  Leftovers early;
  early.begin(true, 10s, kEnd);
  CHECK(early.gone() == Step::over);
  CHECK(early.gone() == Step::nothing);
  Leftovers late;
  late.begin(true, 10s, kEnd);
  late.deadline_passed(kEnd + 1s);
  CHECK(late.gone() == Step::over);
  CHECK_FALSE(late.deadline().has_value());
}

TEST_CASE("after a failure leftover processes have a moment and then get SIGKILL") {
  Leftovers left;
  CHECK(left.begin(true, std::nullopt, kEnd) == Step::nothing);
  CHECK(left.deadline() == kEnd + Leftovers::kSettle);
  CHECK(left.deadline_passed(kEnd + Leftovers::kSettle) == Step::kill);
  CHECK(left.killing());
}

TEST_CASE("when no time is left leftover processes are killed at once") {
  for (const Leftovers::Clock::duration patience : {0s, -1s}) {
    Leftovers left;
    CHECK(left.begin(true, patience, kEnd) == Step::kill);
    CHECK(left.killing());
  }
}

TEST_CASE("a user without patience has it killed in every phase") {
  Leftovers before;
  CHECK(before.kill_now() == Step::nothing);
  Leftovers settling;
  settling.begin(true, 10s, kEnd);
  CHECK(settling.kill_now() == Step::kill);
  CHECK(settling.kill_now() == Step::nothing);
  Leftovers told;
  told.begin(true, 10s, kEnd);
  told.deadline_passed(kEnd + 1s);
  CHECK(told.kill_now() == Step::kill);
}

TEST_CASE("after a stop leftover processes of a success have a moment and then get SIGKILL") {
  Leftovers before;
  before.end_patience(kEnd);
  CHECK_FALSE(before.deadline().has_value());
  Leftovers settling;
  settling.begin(true, 10s, kEnd);
  settling.end_patience(kEnd + 50ms);
  CHECK(settling.deadline() == kEnd + Leftovers::kSettle);
  CHECK(settling.deadline_passed(kEnd + Leftovers::kSettle) == Step::kill);
  settling.end_patience(kEnd + 1s);
  CHECK_FALSE(settling.deadline().has_value());
  Leftovers told;
  told.begin(true, 10s, kEnd);
  told.deadline_passed(kEnd + Leftovers::kSettle);
  told.end_patience(kEnd + 1s);
  CHECK(told.deadline() == kEnd + 1s + Leftovers::kSettle);
  CHECK(told.deadline_passed(kEnd + 1s + Leftovers::kSettle) == Step::kill);
}
