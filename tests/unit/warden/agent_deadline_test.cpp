#include "warden/agent_deadline.hpp"

#include <catch2/catch.hpp>

using ddprun::warden::AgentDeadline;
using namespace std::chrono_literals;

namespace {

using Due = AgentDeadline::Due;
const AgentDeadline::Clock::time_point kNow{1000s};

}  // namespace

TEST_CASE("a healthy agent has no deadline") {
  AgentDeadline deadline(45s);
  CHECK(!deadline.next());
  CHECK(deadline.due(kNow + 1000h) == Due::nothing);
}

TEST_CASE("a stopping agent has its limit from the first signal on") {
  AgentDeadline deadline(45s);
  deadline.stop_requested(kNow);
  deadline.stop_requested(kNow + 20s);
  CHECK(deadline.ending());
  CHECK(deadline.next() == kNow + 45s);
  CHECK(deadline.due(kNow + 45s - 1ns) == Due::nothing);
  CHECK(deadline.due(kNow + 45s) == Due::end_job);
}

TEST_CASE("the agent's own word moves the deadline, in both directions") {
  AgentDeadline deadline(45s);
  deadline.ends_within(5s, kNow);
  CHECK(deadline.next() == kNow + 5s);
  deadline.stop_requested(kNow);  // longer than what it has said
  CHECK(deadline.next() == kNow + 5s);
  deadline.ends_within(60s, kNow + 1s);
  CHECK(deadline.next() == kNow + 61s);
}

TEST_CASE("a suspended agent is reported after a moment and ends the job at its limit") {
  AgentDeadline deadline(45s);
  deadline.stopped(kNow);
  CHECK(deadline.next() == kNow + 1s);
  CHECK(deadline.due(kNow + 999ms) == Due::nothing);
  CHECK(deadline.due(kNow + 1s) == Due::say_stopped);
  CHECK(deadline.left(kNow + 1s) == 44s);
  CHECK(deadline.due(kNow + 1s) == Due::nothing);
  CHECK(deadline.next() == kNow + 45s);
  CHECK(deadline.due(kNow + 45s) == Due::end_job);
  CHECK_FALSE(deadline.ending());
}

TEST_CASE("an agent that is continued in time is trusted again") {
  AgentDeadline deadline(45s);
  deadline.stopped(kNow);
  deadline.continued();
  CHECK(!deadline.next());
  deadline.stopped(kNow + 40s);
  CHECK(deadline.due(kNow + 41s) == Due::say_stopped);
  CHECK(deadline.next() == kNow + 85s);
}

TEST_CASE("a suspended agent that has to end the job gets no more time") {
  AgentDeadline deadline(45s);
  deadline.stop_requested(kNow);
  deadline.stopped(kNow + 30s);
  CHECK(deadline.due(kNow + 31s) == Due::say_stopped);
  CHECK(deadline.due(kNow + 45s) == Due::end_job);
}

TEST_CASE("a warden that did not run itself does not blame its agent") {
  AgentDeadline deadline(45s);
  deadline.stopped(kNow);
  CHECK(deadline.due(kNow + 1h) == Due::nothing);  // the whole job was stopped, and goes on
  CHECK(deadline.next() == kNow + 1h + 1s);
  CHECK(deadline.due(kNow + 1h + 1s) == Due::say_stopped);
  CHECK(deadline.due(kNow + 2h) == Due::nothing);
  CHECK(deadline.next() == kNow + 2h + 45s);  // and it is said once
  CHECK(deadline.due(kNow + 2h + 45s) == Due::end_job);
}
