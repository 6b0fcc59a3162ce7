// The rendezvous service: sessions that outlive connections, leases, and many jobs.
#include "tests/unit/rendezvous/service/service_script.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using proto::Finished;
using proto::Refused;
using proto::Round;
using proto::Stop;
using proto::Welcome;
using test::nodes;
using test::ServiceScript;

namespace {

proto::WorkerFailed failure(proto::RoundNumber round) {
  proto::WorkerFailed failed;
  failed.round = round;
  failed.exit = {true, 9, false};
  return failed;
}

proto::Resume resume(const std::string& agent, proto::Epoch epoch, std::uint64_t next_seq) {
  proto::Resume resume;
  resume.agent = agent;
  resume.epoch = epoch;
  resume.next_seq = next_seq;
  return resume;
}

}  // namespace

TEST_CASE("two agents that join get a round, each its own numbers") {
  ServiceScript service;
  const auto a = service.join("a", nodes(2, 2, 3));
  const auto* welcome = service.last<Welcome>(a);
  REQUIRE(welcome != nullptr);
  CHECK(welcome->epoch == 1);
  CHECK(welcome->lease == 15s);
  CHECK(welcome->keep_alive_period == 3s);
  CHECK(welcome->direct);
  CHECK(service.last<Round>(a) == nullptr);
  const auto b = service.join("b", nodes(2, 2, 3));
  REQUIRE(service.last<Round>(a) != nullptr);
  REQUIRE(service.last<Round>(b) != nullptr);
  CHECK(service.last<Round>(a)->group_rank == 0);
  CHECK(service.last<Round>(b)->first_rank == 2);
  CHECK(service.last<Round>(b)->epoch == 1);
}

TEST_CASE("a connection that was reset costs nothing if the agent comes back within its lease") {
  ServiceScript service;
  const auto a = service.join("a", nodes(2, 2, 3));
  const auto b = service.join("b", nodes(2, 2, 3));
  service.end(b, false);
  service.pass(14s, {a});
  const auto again = service.open();
  service.say(again, resume("b", 1, 2));
  REQUIRE(service.last<Welcome>(again) != nullptr);
  CHECK(service.last<Welcome>(again)->resumed);
  CHECK_FALSE(service.last<Welcome>(again)->in_agent);
  CHECK(service.last<Welcome>(again)->acknowledged == 1);
  // It may have missed the round.
  REQUIRE(service.last<Round>(again) != nullptr);
  CHECK(service.last<Round>(again)->group_rank == 1);
  service.pass(1min, {a, again});
  CHECK(service.last<Stop>(a) == nullptr);
}

TEST_CASE("what was said while the connection was away is taken once") {
  ServiceScript service;
  const auto a = service.join("a", nodes(2, 2, 3));
  const auto b = service.join("b", nodes(2, 2, 3));
  service.end(b, false);
  const auto again = service.open();
  service.say(again, resume("b", 1, 3));
  service.say(again, 1, ServiceScript::join_of("b", nodes(2, 2, 3)));
  service.say(again, 2, failure(0));
  REQUIRE(service.last<Stop>(a) != nullptr);
  REQUIRE(service.last<Stop>(again) != nullptr);
  service.say(again, proto::KeepAlive{7, {}});
  const auto* alive = service.last<proto::Alive>(again);
  REQUIRE(alive != nullptr);
  CHECK(alive->number == 7);
  CHECK(alive->acknowledged == 2);
  // A number that leaves one out would lose a message.
  service.say(again, 4, proto::Stopped{0, {}});
  REQUIRE(service.last<Refused>(again) != nullptr);
  CHECK(service.last<Refused>(again)->why == Refused::Why::broken);
  CHECK(service.closed.contains(again));
}

TEST_CASE("a silent agent is lost when its lease is over, and not before") {
  ServiceScript service;
  const auto a = service.join("a", nodes(1, 2, 3));
  static_cast<void>(service.join("b", nodes(1, 2, 3)));
  REQUIRE(service.last<Round>(a) != nullptr);
  service.pass(17s, {a});
  CHECK(service.last<Stop>(a) == nullptr);
  service.pass(200ms, {a});
  REQUIRE(service.last<Stop>(a) != nullptr);
  CHECK(service.last<Stop>(a)->reason ==
        "b (ranks 2 and 3) was lost: it has not answered for 17.1 s");
  service.say(a, 2, proto::Stopped{0, {}});
  service.say(a, 3, ServiceScript::join_of("a", nodes(1, 2, 3)));
  REQUIRE(service.last<Round>(a)->number == 1);
  CHECK(service.last<Round>(a)->group_world_size == 1);
  CHECK(service.last<Round>(a)->restart_count == 0);
}

TEST_CASE("a connection that ends cleanly is a lost node at once, a reset is not") {
  const bool cleanly = GENERATE(true, false);
  ServiceScript service;
  const auto a = service.join("a", nodes(1, 2, 3));
  const auto b = service.join("b", nodes(1, 2, 3));
  service.end(b, cleanly);
  CHECK(service.last<Stop>(a) == nullptr);
  service.pass(60ms);
  CHECK((service.last<Stop>(a) != nullptr) == cleanly);
}

TEST_CASE("a forwarder that ends a connection cleanly proves nothing about the node behind it") {
  ServiceScript service;
  const auto a = service.join("a", nodes(1, 2, 3));
  service.forwarded = true;
  const auto b = service.join("b", nodes(1, 2, 3));
  CHECK_FALSE(service.last<Welcome>(b)->direct);
  service.end(b, true);
  service.pass(17s, {a});
  CHECK(service.last<Stop>(a) == nullptr);
  service.pass(1s, {a});
  REQUIRE(service.last<Stop>(a) != nullptr);
  CHECK(service.last<Stop>(a)->reason.find("connection ended") == std::string::npos);
}

TEST_CASE(
    "a node behind a forwarder that is known to be gone is lost at once, unless it comes back") {
  const auto end = GENERATE(as<std::string>(), "gone", "other job", "still connected");
  ServiceScript service;
  const auto a = service.join("a", nodes(1, 2, 3));
  service.forwarded = true;
  const auto b = service.join("b", nodes(1, 2, 3));
  // What told of its end may be faster than the end of its connection.
  service.node_gone(end == "other job" ? "other" : "job", "b");
  if (end != "still connected") service.end(b, true);
  service.pass(60ms);
  CHECK((service.last<Stop>(a) != nullptr) == (end == "gone"));
}

TEST_CASE("people who see the lines of a node at the service are warned once") {
  ServiceScript service;
  const bool here = GENERATE(true, false);
  const auto a = service.open("job", here ? "" : "10.0.0.1");
  proto::Resume begins;
  begins.agent = "a";
  service.say(a, begins);
  for (const char* name : {"a", "b"}) {
    proto::Join join = ServiceScript::join_of(name, nodes(2, 2, 3));
    join.requested_group_rank = 1;
    service.say(name == std::string("a") ? a : service.begin("b"), 1, join);
  }
  REQUIRE(service.last<proto::Remark>(a) != nullptr);
  CHECK(service.last<proto::Remark>(a)->text ==
        "--node-rank=1 is given on a and on b: one of them gets it");
  CHECK(service.warnings.empty() == here);
}

TEST_CASE("people are not warned at the service of what the end of a node's job there tells them") {
  const bool here = GENERATE(true, false);
  ServiceScript service;
  const auto a = service.open("job", here ? "" : "10.0.0.1");
  proto::Resume begins;
  begins.agent = "a";
  service.say(a, begins);
  proto::Join join = ServiceScript::join_of("a", nodes(1, 1, 3));
  join.checks_first = true;
  service.say(a, 1, join);
  REQUIRE(service.last<proto::Check>(a) != nullptr);
  service.say(a, 2, proto::Checked{service.last<proto::Check>(a)->number, false, "no GPU", false});
  REQUIRE(service.last<proto::Finished>(a) != nullptr);
  CHECK(service.last<proto::Finished>(a)->reason == "a failed its check (--preflight): no GPU");
  CHECK(service.warnings.empty() == here);
}

TEST_CASE("where another service may take the jobs over no connection counts as direct") {
  rdzv::ServiceSettings settings = ServiceScript::with_secret();
  settings.has_standbys = true;
  ServiceScript service(settings);
  const auto a = service.join("a", nodes(1, 1, 3));
  CHECK_FALSE(service.last<Welcome>(a)->direct);
}

TEST_CASE("whether a connection is direct is asked on each one anew") {
  ServiceScript service;
  service.forwarded = true;
  const auto a = service.join("a", nodes(1, 1, 3));
  service.end(a, false);
  const auto again = service.open();
  proto::Resume direct = resume("a", 1, 2);
  direct.path = ServiceScript::path(again);
  service.say(again, direct);
  CHECK(service.last<Welcome>(again)->resumed);
  CHECK(service.last<Welcome>(again)->direct);
}

TEST_CASE("a connection that ended cleanly while its agent came back by another is no loss") {
  ServiceScript service;
  const auto a = service.join("a", nodes(1, 2, 3));
  const auto b = service.join("b", nodes(1, 2, 3));
  service.end(b, true);
  service.pass(10ms);
  const auto again = service.open();
  service.say(again, resume("b", 1, 2));
  CHECK(service.last<Welcome>(again)->resumed);
  service.pass(1s, {a, again});
  CHECK(service.last<Stop>(a) == nullptr);
}

TEST_CASE("agents of unknown jobs take no place from others") {
  rdzv::ServiceSettings settings;
  settings.jobs_max = 2;
  ServiceScript service(settings);
  const bool early = GENERATE(true, false);
  if (!early) service.now += 1min;
  for (const std::string run_id : {"x", "y", "z"})
    service.say(service.open(run_id), resume("old", 1, 2));
  CHECK(service.core.is_idle());
  const auto a = service.join("a", nodes(1, 1, 3), "one");
  CHECK(service.last<Welcome>(a) != nullptr);
}

TEST_CASE("an agent that was taken for lost is told that its session is unknown") {
  ServiceScript service;
  const auto a = service.join("a", nodes(1, 2, 3));
  const auto b = service.join("b", nodes(1, 2, 3));
  service.pass(18s, {a});
  CHECK(service.closed.contains(b));
  const auto again = service.open();
  service.say(again, resume("b", 1, 2));
  REQUIRE(service.last<Welcome>(again) != nullptr);
  CHECK_FALSE(service.last<Welcome>(again)->resumed);
  CHECK(service.last<Round>(again) == nullptr);
  // On the same connection it begins anew, once its workers have ended.
  proto::Resume fresh;
  fresh.agent = "b/2";
  fresh.replaces = "b";
  service.say(again, fresh);
  proto::Join join = ServiceScript::join_of("b", nodes(1, 2, 3));
  join.was_in = proto::PastRound{1, 0, 0};
  service.say(again, 1, join);
  service.say(a, 2, proto::Stopped{0, {}});
  service.say(a, 3, ServiceScript::join_of("a", nodes(1, 2, 3)));
  REQUIRE(service.last<Round>(again) != nullptr);
  CHECK(service.last<Round>(again)->number == 1);
}

TEST_CASE("a session that an agent replaces is a lost node at once") {
  ServiceScript service;
  const auto a = service.join("a", nodes(1, 2, 3));
  const auto b = service.join("b", nodes(1, 2, 3));
  service.end(b, false);
  const auto again = service.open();
  proto::Resume fresh;
  fresh.agent = "b/2";
  fresh.replaces = "b";
  service.say(again, fresh);
  REQUIRE(service.last<Stop>(a) != nullptr);
  CHECK(service.last<Stop>(a)->reason ==
        "b (ranks 2 and 3) was lost: it was cut off for longer than its lease");
}

TEST_CASE("a host that was started again is not waited for") {
  ServiceScript service;
  const auto a = service.join("a", nodes(1, 2, 3));
  const auto b = service.join("b", nodes(1, 2, 3));
  const auto join_again = [&](const std::string& boot_id) {
    const auto id = service.begin("b2");
    proto::Join join = ServiceScript::join_of("b", nodes(1, 2, 3));
    join.boot_id = boot_id;
    service.say(id, 1, join);
  };
  SECTION("its connection is gone") {
    service.end(b, false);
    join_again("another boot");
    REQUIRE(service.last<Stop>(a) != nullptr);
    CHECK(service.last<Stop>(a)->reason ==
          "b (ranks 2 and 3) was lost: its machine was started again");
  }
  SECTION("its address is that of a forwarder, behind which many hosts may have its name") {
    service.end(b, false);
    service.forwarded = true;
    join_again("another boot");
    CHECK(service.last<Stop>(a) == nullptr);
  }
  SECTION("it was not started again: another agent of the same host") {
    service.end(b, false);
    join_again("boot of b");
    CHECK(service.last<Stop>(a) == nullptr);
  }
  SECTION("its connection is not gone: another host of the same name") {
    join_again("another boot");
    CHECK(service.last<Stop>(a) == nullptr);
  }
}

TEST_CASE("the outcome reaches an agent that had lost its connection") {
  ServiceScript service;
  const auto a = service.join("a", nodes(2, 2, 3));
  const auto b = service.join("b", nodes(2, 2, 3));
  service.say(b, 2, proto::WorkersDone{0});
  service.end(b, false);
  service.say(a, 2, proto::WorkersDone{0});
  REQUIRE(service.last<Finished>(a) != nullptr);
  const auto again = service.open();
  service.say(again, resume("b", 1, 3));
  REQUIRE(service.last<Finished>(again) != nullptr);
  CHECK(service.last<Finished>(again)->outcome == Finished::Outcome::succeeded);
  service.say(a, proto::Bye{});
  service.say(again, proto::Bye{});
  CHECK(service.core.is_idle());
}

TEST_CASE("an agent that can never take part learns why, also when it missed the answer") {
  ServiceScript service;
  static_cast<void>(service.join("a", nodes(2, 2, 3)));
  const auto b = service.begin("b");
  service.end(b, false);
  const auto again = service.open();
  service.say(again, resume("b", 1, 1));
  service.say(again, 1, ServiceScript::join_of("b", nodes(3, 3, 3)));
  REQUIRE(service.last<Finished>(again) != nullptr);
  service.end(again, false);
  const auto third = service.open();
  service.say(third, resume("b", 1, 2));
  REQUIRE(service.last<Finished>(third) != nullptr);
  CHECK(service.last<Finished>(third)->reason ==
        "this job has --nnodes=2, b was started with --nnodes=3");
}

TEST_CASE("leases are what the agent wishes for, within bounds") {
  const auto [wish, lease] = GENERATE(table<std::chrono::nanoseconds, std::chrono::nanoseconds>(
      {{0s, 15s}, {3s, 3s}, {1ns, 500ms}, {100h, 1h}}));
  ServiceScript service;
  const auto id = service.open();
  proto::Resume first;
  first.agent = "a";
  first.lease = wish;
  service.say(id, first);
  REQUIRE(service.last<Welcome>(id) != nullptr);
  CHECK(service.last<Welcome>(id)->lease == lease);
  CHECK(service.last<Welcome>(id)->keep_alive_period == lease / 5);
}

TEST_CASE("messages that make no sense end the connection, and no other is affected") {
  ServiceScript service;
  const auto a = service.join("a", nodes(1, 1, 3));
  const auto bad = service.open();
  SECTION("no session") { service.say(bad, 1, proto::Started{0}); }
  SECTION("a proof") { service.say(bad, proto::Prove{}); }
  SECTION("a session without a name") { service.say(bad, proto::Resume{}); }
  SECTION("two sessions") {
    proto::Resume one;
    one.agent = "x";
    service.say(bad, one);
    one.agent = "y";
    service.say(bad, one);
  }
  SECTION("no job") {
    const auto observer = service.open("");
    proto::Resume one;
    one.agent = "x";
    service.say(observer, one);
    CHECK(service.closed.contains(observer));
    service.say(bad, proto::Prove{});
  }
  REQUIRE(service.last<Refused>(bad) != nullptr);
  CHECK(service.last<Refused>(bad)->why == Refused::Why::broken);
  CHECK(service.closed.contains(bad));
  service.say(a, proto::KeepAlive{1, {}});
  CHECK(service.last<proto::Alive>(a) != nullptr);
}

TEST_CASE("a session that joins nothing leaves nothing behind") {
  ServiceScript service;
  const auto id = service.begin("a");
  service.end(id, true);
  service.pass(1min);
  const auto observer = service.open("");
  service.say(observer, proto::StatusRequest{});
  REQUIRE(service.last<proto::Status>(observer) != nullptr);
  CHECK(service.last<proto::Status>(observer)->job_count == 0);
  CHECK_FALSE(service.core.deadline().has_value());
}
