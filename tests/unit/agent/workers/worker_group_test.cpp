#include "agent/workers/worker_group.hpp"

#include <catch2/catch.hpp>
#include <csignal>

using namespace std::chrono_literals;
using namespace ddprun;
using agent::WorkerGroup;

namespace {

const agent::Clock::time_point kStart{1h};
constexpr ExitStatus kSuccess{false, 0, false};
constexpr ExitStatus kCode3{false, 3, false};
constexpr ExitStatus kKilled{true, SIGKILL, false};
constexpr ExitStatus kTerminated{true, SIGTERM, false};

WorkerGroup group_of(int workers, agent::Clock::duration grace = 10s) {
  WorkerGroup group(workers, grace, 5s);
  for (int i = 0; i < workers; ++i) group.started(i, 100 + i, kStart);
  return group;
}

}  // namespace

TEST_CASE("a group is done when every worker has ended with 0") {
  WorkerGroup group = group_of(2);
  const auto first = group.exited(1, kSuccess, kStart + 1s);
  CHECK_FALSE(first.all_done);
  CHECK_FALSE(first.ended);
  const auto second = group.exited(0, kSuccess, kStart + 2s);
  CHECK(second.all_done);
  CHECK(second.ended);
  CHECK_FALSE(second.failed);
}

TEST_CASE("a failure is reported at once, and how it ended and how long it ran is recorded") {
  WorkerGroup group = group_of(2);
  const auto actions = group.exited(1, kKilled, kStart + 1500ms);
  CHECK(actions.failed);
  CHECK(group.workers()[1].pid == 101);
  CHECK(group.workers()[1].exit == kKilled);
  CHECK(group.workers()[1].ran_for == 1500ms);
  CHECK_FALSE(actions.ended);
  CHECK(actions.signal == 0);  // whether the others are stopped is not the group's decision
}

TEST_CASE("a group with a failure is never done") {
  WorkerGroup group = group_of(2);
  group.exited(0, kCode3, kStart);
  const auto last = group.exited(1, kSuccess, kStart);
  CHECK(last.ended);
  CHECK_FALSE(last.all_done);
}

TEST_CASE("a stop sends its signal, then SIGKILL when the grace period is over") {
  WorkerGroup group = group_of(2);
  CHECK(group.stop(SIGINT, kStart).signal == SIGINT);
  CHECK(group.deadline() == kStart + 10s);
  CHECK(group.deadline_passed(kStart + 9s).signal == 0);
  CHECK(group.stop(SIGTERM, kStart + 5s).signal == 0);  // once is enough
  CHECK(group.deadline_passed(kStart + 10s).signal == SIGKILL);
  CHECK(group.killed());
  CHECK(group.deadline() == kStart + 15s);
}

TEST_CASE("with no grace period a stop is SIGKILL") {
  WorkerGroup group = group_of(1, 0s);
  CHECK(group.stop(SIGTERM, kStart).signal == SIGKILL);
  CHECK(group.deadline() == kStart + 5s);
}

TEST_CASE("workers that we stop are no failures") {
  WorkerGroup group = group_of(2);
  group.exited(0, kCode3, kStart);
  group.stop(SIGTERM, kStart);
  const auto last = group.exited(1, kTerminated, kStart + 1s);
  CHECK_FALSE(last.failed);
  CHECK(last.ended);
  CHECK_FALSE(last.all_done);
  CHECK_FALSE(group.workers()[0].stopped_by_us);
  CHECK(group.workers()[1].stopped_by_us);
  CHECK_FALSE(group.deadline().has_value());
}

TEST_CASE("workers that end well while they are stopped do not make the round a success") {
  WorkerGroup group = group_of(1);
  group.stop(SIGTERM, kStart);
  const auto last = group.exited(0, kSuccess, kStart);
  CHECK(last.ended);
  CHECK_FALSE(last.all_done);
}

TEST_CASE("a group without running workers ends at once when it is stopped") {
  WorkerGroup group = group_of(1);
  group.exited(0, kCode3, kStart);
  const auto actions = group.stop(SIGTERM, kStart);
  CHECK(actions.ended);
  CHECK(actions.signal == 0);
}

TEST_CASE("a worker that cannot be started is a failure with a reason") {
  WorkerGroup group(2, 10s, 5s);
  group.started(0, 100, kStart);
  const auto actions = group.not_started(1, "no such file");
  CHECK(actions.failed);
  CHECK(group.workers()[1].error == "no such file");
  CHECK_FALSE(actions.ended);
  CHECK(group.stop(SIGTERM, kStart).signal == SIGTERM);
}

TEST_CASE("a second stop by the user kills at once") {
  WorkerGroup group = group_of(2);
  group.stop(SIGINT, kStart);
  CHECK(group.kill_now(kStart).signal == SIGKILL);
  CHECK(group.deadline() == kStart + 5s);
  CHECK(group.kill_now(kStart + 1s).signal == SIGKILL);  // again does no harm, nor wait longer
  CHECK(group.deadline() == kStart + 5s);
  group.exited(0, kKilled, kStart);
  group.exited(1, kKilled, kStart);
  CHECK(group.kill_now(kStart).signal == 0);
}

TEST_CASE("workers that do not die of SIGKILL are given up and count as ended") {
  WorkerGroup group = group_of(2);
  group.stop(SIGTERM, kStart);
  group.deadline_passed(kStart + 10s);
  group.exited(0, kKilled, kStart + 11s);
  CHECK_FALSE(group.deadline_passed(kStart + 14s).ended);
  const auto actions = group.deadline_passed(kStart + 15s);
  CHECK(actions.ended);
  CHECK_FALSE(actions.failed);
  CHECK_FALSE(actions.all_done);
  CHECK(group.workers()[1].stopped_by_us);
  CHECK_FALSE(group.deadline().has_value());
  // It may still die later; that is no event any more.
  CHECK_FALSE(group.exited(1, kKilled, kStart + 20s).ended);
}
