// Many jobs in one service, and one run of a job after another.
#include "tests/unit/rendezvous/service/service_script.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using proto::Finished;
using proto::Refused;
using proto::Round;
using proto::Welcome;
using test::nodes;
using test::ServiceScript;

TEST_CASE("jobs do not know of one another") {
  ServiceScript service;
  const auto a = service.join("a", nodes(1, 1, 3), "one");
  const auto b = service.join("a", nodes(2, 2, 3), "two");
  REQUIRE(service.last<Round>(a) != nullptr);
  CHECK(service.last<Round>(b) == nullptr);
  service.say(a, 2, proto::WorkersDone{0});
  REQUIRE(service.last<Finished>(a) != nullptr);
  CHECK(service.last<Finished>(b) == nullptr);
  CHECK_FALSE(service.core.is_idle());
}

TEST_CASE("a service is idle when no job waits for anybody, also after a restart") {
  ServiceScript service;
  CHECK(service.core.is_idle());
  const auto a = service.join("a", nodes(1, 1, 3), "one");
  const auto b = service.join("b", nodes(1, 1, 3), "two");
  service.say(a, 2, proto::WorkersDone{0});
  CHECK_FALSE(service.core.is_idle());
  service.say(a, proto::Bye{});
  CHECK_FALSE(service.core.is_idle());
  if (GENERATE(true, false)) {
    service.say(b, 2, proto::WorkersDone{0});
    service.say(b, proto::Bye{});
    CHECK(service.core.is_idle());
  } else {
    service.restart();
    CHECK_FALSE(service.core.is_idle());
    service.pass(1min);  // no node comes back: the job waits for others
    CHECK_FALSE(service.core.is_idle());
  }
  // The first job again, by an agent that was started later.
  service.pass(1s);
  const auto c = service.join("c", nodes(1, 1, 3), "one");
  CHECK_FALSE(service.core.is_idle());
  CHECK(service.last<Round>(c) != nullptr);
}

TEST_CASE("a service of one job refuses others") {
  rdzv::ServiceSettings settings;
  settings.only_run_id = "one";
  ServiceScript service(settings);
  const auto id = service.open("two");
  REQUIRE(service.last<Refused>(id) != nullptr);
  CHECK(service.last<Refused>(id)->why == Refused::Why::other_job);
  CHECK(service.last<Refused>(id)->reason == "this rendezvous serves the job 'one' only");
  CHECK(service.closed.contains(id));
}

TEST_CASE("the default name of a job is shown as such") {
  rdzv::ServiceSettings settings;
  settings.only_run_id = "none";
  ServiceScript service(settings);
  const auto id = service.open("two");
  REQUIRE(service.last<Refused>(id) != nullptr);
  CHECK(service.last<Refused>(id)->reason ==
        "this rendezvous serves the job 'none' (started without --rdzv-id) only");
}

TEST_CASE("nodes that wait hear of one with another run id, once") {
  rdzv::ServiceSettings settings;
  settings.only_run_id = "one";
  ServiceScript service(settings);
  const auto a = service.join("a", nodes(2, 2), "one");
  CHECK(service.last<proto::Welcome>(a)->in_agent);
  std::size_t messages = service.messages;
  for (int i = 0; i < 3; ++i) static_cast<void>(service.open("0ne", "10.0.0.7"));
  CHECK(service.messages == messages + 3 + 1);  // three refusals
  REQUIRE(service.last<proto::Remark>(a) != nullptr);
  CHECK(service.last<proto::Remark>(a)->text ==
        "a connection from 10.0.0.7 was refused: it is for the job '0ne', this job is 'one'");
  const auto b = service.join("b", nodes(2, 2), "one");
  REQUIRE(service.last<Round>(b) != nullptr);
  messages = service.messages;
  static_cast<void>(service.open("two", "10.0.0.7"));
  CHECK(service.messages == messages + 1);
}

TEST_CASE("nodes that wait hear of one without the secret, and not more often than each second") {
  ServiceScript service;
  const auto a = service.join("a", nodes(2, 2), "job");
  const std::size_t messages = service.messages;
  service.refuse("job", "10.0.0.7");
  REQUIRE(service.last<proto::Remark>(a) != nullptr);
  CHECK(service.last<proto::Remark>(a)->text ==
        "a connection from 10.0.0.7 was refused: it has another --rdzv-secret-file than the "
        "rendezvous, or none");
  service.refuse("job", "10.0.0.8");
  service.refuse("another", "10.0.0.9");
  CHECK(service.messages == messages + 1);
  service.now += 1s;
  service.refuse("job", "10.0.0.7");  // the same
  CHECK(service.messages == messages + 1);
  service.refuse("job", "10.0.0.8");
  CHECK(service.messages == messages + 2);
}

TEST_CASE(
    "nodes hear of one that was first refused before any of them waited, when that tries again") {
  ServiceScript service;
  const auto a = service.begin("a");  // its join is still to come
  service.refuse("job", "10.0.0.7");
  CHECK(service.last<proto::Remark>(a) == nullptr);
  service.say(a, 1, ServiceScript::join_of("a", nodes(2, 2)));
  service.now += 1s;
  service.refuse("job", "10.0.0.7");
  CHECK(service.last<proto::Remark>(a) != nullptr);
}

TEST_CASE("nodes that wait hear of one without --rdzv-tls") {
  ServiceScript service;
  const auto a = service.join("a", nodes(2, 2), "job");
  service.refuse("job", "10.0.0.7", rdzv::Lack::encryption);
  REQUIRE(service.last<proto::Remark>(a) != nullptr);
  CHECK(service.last<proto::Remark>(a)->text ==
        "a connection from 10.0.0.7 was refused: it does not encrypt its connections; it needs "
        "--rdzv-tls");
}

TEST_CASE("a service of one job leaves the next run of that job to another service") {
  rdzv::ServiceSettings settings;
  settings.only_run_id = "job";
  ServiceScript service(settings);
  const auto a = service.join("a", nodes(1, 1, 0));
  service.say(a, 2, proto::WorkersDone{0});
  REQUIRE(service.last<Finished>(a) != nullptr);
  service.pass(10s, {a});
  proto::Resume later;
  later.agent = "b";
  later.age = 9s;
  const auto b = service.open();
  service.say(b, later);
  REQUIRE(service.last<Refused>(b) != nullptr);
  CHECK(service.last<Refused>(b)->why == Refused::Why::limit);  // it tries again
  CHECK(service.last<Welcome>(b) == nullptr);
  // One that was there while the job ran learns how that ended.
  later.agent = "c";
  later.age = 11s;
  const auto c = service.open();
  service.say(c, later);
  CHECK(service.last<Refused>(c) == nullptr);
  proto::Join join = ServiceScript::join_of("c", nodes(1, 1, 0));
  join.age = 11s;
  service.say(c, 1, join);
  CHECK(service.last<Finished>(c) != nullptr);
}

TEST_CASE("a service has so many jobs, and forgets those that are over") {
  rdzv::ServiceSettings settings;
  settings.jobs_max = 2;
  ServiceScript service(settings);
  const auto a = service.join("a", nodes(1, 1, 3), "one");
  static_cast<void>(service.join("a", nodes(1, 1, 3), "two"));
  const auto refused = service.begin("a", "three");
  REQUIRE(service.last<Refused>(refused) != nullptr);
  CHECK(service.last<Refused>(refused)->why == Refused::Why::limit);
  service.say(a, 2, proto::WorkersDone{0});
  service.say(a, proto::Bye{});
  CHECK(service.closed.contains(a));
  const auto third = service.begin("a", "three");
  CHECK(service.last<Welcome>(third) != nullptr);
}

TEST_CASE("a late agent is told the outcome, and one that was started later runs the job again") {
  ServiceScript service;
  const auto a = service.join("a", nodes(1, 1, 3));
  service.say(a, 2, proto::WorkersDone{0});
  service.say(a, proto::Bye{});
  service.pass(10s);
  proto::Join join = ServiceScript::join_of("b", nodes(1, 1, 3));
  SECTION("started before") {
    join.age = 11s;
    const auto late = service.begin("b");
    service.say(late, 1, join);
    REQUIRE(service.last<Finished>(late) != nullptr);
    CHECK(service.last<Round>(late) == nullptr);
  }
  SECTION("started after") {
    join.age = 9s;
    const auto next = service.begin("b");
    service.say(next, 1, join);
    REQUIRE(service.last<Round>(next) != nullptr);
    CHECK(service.last<Round>(next)->epoch == 2);
    CHECK(service.last<Round>(next)->number == 0);
    CHECK(service.last<Finished>(next) == nullptr);
  }
}
