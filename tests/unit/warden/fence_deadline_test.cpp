#include "warden/agent_deadline.hpp"

#include <catch2/catch.hpp>

using ddprun::warden::FenceDeadline;
using namespace std::chrono_literals;

namespace {

const FenceDeadline::TimePoint kLeaseEnd{1000s};  // by the boot clock
const FenceDeadline::TimePoint kSteady{400s};

}  // namespace

TEST_CASE("without a lease nothing is fenced") {
  FenceDeadline fence;
  CHECK(!FenceDeadline::at(std::nullopt));
  CHECK_FALSE(fence.is_due(std::nullopt, {kLeaseEnd + 1h, kSteady}));
}

TEST_CASE("the agent has a second after the end of its lease") {
  FenceDeadline fence;
  CHECK(FenceDeadline::at(kLeaseEnd) == kLeaseEnd + 1s);
  CHECK_FALSE(fence.is_due(kLeaseEnd, {kLeaseEnd + 1s - 1ns, kSteady}));
  CHECK(fence.is_due(kLeaseEnd, {kLeaseEnd + 1s, kSteady}));
  CHECK(fence.is_due(kLeaseEnd, {kLeaseEnd + 2s, kSteady}));
}

TEST_CASE("an agent that slept with the machine has a moment to kill the workers itself") {
  FenceDeadline fence;
  CHECK_FALSE(fence.is_due(kLeaseEnd, {kLeaseEnd + 1h, kSteady}));
  CHECK(fence.wake_until() == kSteady + 200ms);
  CHECK_FALSE(fence.is_due(kLeaseEnd, {kLeaseEnd + 1h + 200ms, kSteady + 200ms - 1ns}));
  CHECK(fence.is_due(kLeaseEnd, {kLeaseEnd + 1h + 200ms, kSteady + 200ms}));
}

TEST_CASE("a lease that was renewed after the sleep fences nothing, and the next one counts anew") {
  FenceDeadline fence;
  CHECK_FALSE(fence.is_due(kLeaseEnd, {kLeaseEnd + 1h, kSteady}));
  CHECK_FALSE(fence.is_due(kLeaseEnd + 2h, {kLeaseEnd + 1h, kSteady + 1s}));
  CHECK(!fence.wake_until());
  CHECK(fence.is_due(kLeaseEnd + 2h, {kLeaseEnd + 2h + 1s, kSteady + 1h}));
}
