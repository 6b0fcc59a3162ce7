// The parts of an agent's session, each with a clock that is moved by hand.
#include "rendezvous/client/session_parts.hpp"

#include <catch2/catch.hpp>

#include "rendezvous/client/agent_place.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using rdzv::AgentPlace;
using rdzv::KeepAlives;
using rdzv::SessionLease;

namespace {

const rdzv::SessionClock::time_point kNow{1'000s};

AgentPlace in_round(proto::RoundNumber number) {
  AgentPlace place;
  proto::Round round;
  round.number = number;
  place.deliver(round);
  return place;
}

}  // namespace

TEST_CASE("session parts: a pause is at most its bound, which doubles up to the longest") {
  rdzv::AttemptPauses pauses(7);
  CHECK(pauses.next(1s) == 0ns);
  for (const auto bound : {20ms, 40ms, 80ms, 100ms, 100ms}) CHECK(pauses.next(100ms) <= bound);
  pauses.reset();
  CHECK(pauses.next(1s) == 0ns);
}

TEST_CASE("session parts: a lease never ends sooner than it was said") {
  SessionLease lease({15s, 600s, 300s}, kNow);
  CHECK(lease.renew(kNow + 15s));
  CHECK_FALSE(lease.renew(kNow + 14s));
  CHECK_FALSE(lease.renew(kNow + 15s));
  CHECK(lease.end() == kNow + 15s);
}

TEST_CASE(
    "session parts: the first answer is waited for as joins are, later ones for a lease at least") {
  SessionLease lease({15s, 600s, 300s}, kNow);
  CHECK(lease.gives_up_at() == kNow + 600s);
  lease.hear(kNow + 10s);
  CHECK(lease.gives_up_at() == kNow + 310s);
  lease.set_length(400s);
  CHECK(lease.gives_up_at() == kNow + 410s);
}

TEST_CASE(
    "session parts: three keep-alives without an answer for two periods are a dead connection") {
  KeepAlives keep_alives(3s, kNow);
  CHECK(keep_alives.due() == kNow);
  for (int i = 1; i <= 3; ++i) keep_alives.ask(i, keep_alives.due());
  CHECK_FALSE(keep_alives.is_dead(kNow, kNow + 5s));
  CHECK(keep_alives.is_dead(kNow, kNow + 6s));
  CHECK(keep_alives.answer(2) == kNow + 3s);
  CHECK_FALSE(keep_alives.is_dead(kNow, kNow + 6s));
  CHECK(keep_alives.answer(1) == std::nullopt);
}

TEST_CASE("session parts: people are told once of each reason for a silence") {
  rdzv::SilenceReports silence;
  CHECK(silence.due(kNow) == std::nullopt);
  silence.fail("Connection refused");
  CHECK(silence.due(kNow) == kNow + 2s);
  silence.cut(kNow + 1s);
  CHECK(silence.due(kNow) == kNow + 3s);
  silence.note_told(kNow + 3s);
  CHECK(silence.due(kNow) == std::nullopt);
  silence.fail("no answer");
  CHECK(silence.due(kNow) == kNow + 13s);
  CHECK(silence.end());
  CHECK_FALSE(silence.end());
}

TEST_CASE("session parts: a message that is acknowledged is not sent again") {
  rdzv::SessionOutbox outbox;
  for (int i = 0; i < 3; ++i) CHECK(outbox.add(proto::WorkersDone{}).seq == i + 1U);
  outbox.forget_up_to(2);
  CHECK(outbox.unacknowledged().size() == 1);
  CHECK(outbox.acknowledged() == 2);
  CHECK(outbox.next_seq() == 4);
}

TEST_CASE("agent place: only workers that may still write are to be killed") {
  CHECK_FALSE(AgentPlace().must_fence());
  AgentPlace place = in_round(4);
  CHECK(place.must_fence());
  place.is_fenced = true;
  CHECK_FALSE(place.must_fence());
  place.end_fence();
  CHECK_FALSE(place.round);
}

TEST_CASE("agent place: a node that leaves ends by itself unless it stops or waits for others") {
  AgentPlace place;
  proto::AgentMessage leave = proto::Leave{};
  REQUIRE(place.submit(leave, kNow));
  CHECK(place.leaves_unanswered(false));
  CHECK_FALSE(place.leaves_unanswered(true));
  place.round = 4;
  CHECK(place.leaves_unanswered(true));
  place.stop = 4;
  CHECK_FALSE(place.leaves_unanswered(true));
}

TEST_CASE(
    "agent place: one that leaves does not join again, and one that joins names its last round") {
  AgentPlace place = in_round(4);
  proto::AgentMessage join = proto::Join{};
  REQUIRE(place.submit(join, kNow));
  REQUIRE(std::get<proto::Join>(join).was_in.has_value());
  CHECK(std::get<proto::Join>(join).was_in->number == 4);
  proto::AgentMessage leave = proto::Leave{};
  REQUIRE(place.submit(leave, kNow));
  CHECK_FALSE(place.submit(join, kNow));
  CHECK(place.pending_leave() != nullptr);
}

TEST_CASE("agent place: a message that came before is not new, and a missed round is missed once") {
  AgentPlace place = in_round(4);
  proto::Round round;
  round.number = 4;
  CHECK_FALSE(place.is_new(round));
  round.number = 5;
  CHECK(place.is_new(round));
  proto::Stop stop;
  stop.round = 4;
  CHECK(place.is_new(stop));
  place.deliver(stop);
  CHECK_FALSE(place.is_new(stop));
  CHECK(place.miss(6));
  CHECK_FALSE(place.miss(6));
}
