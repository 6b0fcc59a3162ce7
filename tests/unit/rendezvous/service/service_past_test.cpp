// The service after its own death: with its journal, and without.
#include <csignal>

#include "tests/unit/rendezvous/service/service_script.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using proto::Finished;
using proto::Round;
using proto::Stop;
using proto::Welcome;
using test::nodes;
using test::ServiceScript;

TEST_CASE("a service with its journal goes on where it was") {
  ServiceScript service;
  static_cast<void>(service.join("a", nodes(2, 2, 3)));
  static_cast<void>(service.join("b", nodes(2, 2, 3)));
  service.now += 5s;
  service.restart();
  const auto a = service.open();
  service.say(a, ServiceScript::resume_of("a", 2));
  REQUIRE(service.last<Welcome>(a) != nullptr);
  CHECK(service.last<Welcome>(a)->resumed);
  CHECK(service.last<Welcome>(a)->acknowledged == 1);
  REQUIRE(service.last<Round>(a) != nullptr);
  CHECK(service.last<Round>(a)->number == 0);
  // The other one has its whole lease to come back.
  service.pass(17s, {a});
  CHECK(service.last<Stop>(a) == nullptr);
  service.pass(200ms, {a});
  CHECK(service.last<Stop>(a) != nullptr);
}

TEST_CASE("a service with its journal knows how a job ended") {
  ServiceScript service;
  const auto a = service.join("a", nodes(1, 1, 3));
  service.say(a, 2, proto::WorkersDone{0});
  service.restart();
  const auto again = service.open();
  service.say(again, ServiceScript::resume_of("a", 3));
  REQUIRE(service.last<Finished>(again) != nullptr);
  CHECK(service.last<Finished>(again)->outcome == Finished::Outcome::succeeded);
}

TEST_CASE("a service without its journal forms no round until the old one's leases are over") {
  ServiceScript service;
  const bool resumes_first = GENERATE(true, false);
  // One node of the old round is here, with what it remembers; a new one would make the job whole.
  const auto a = service.open();
  if (resumes_first) {
    service.say(a, ServiceScript::resume_of("a", 5));
    REQUIRE(service.last<Welcome>(a) != nullptr);
    CHECK_FALSE(service.last<Welcome>(a)->resumed);
  }
  const auto b = service.join("b", nodes(2, 2, 3));
  proto::Resume fresh;
  fresh.agent = "a/2";
  fresh.replaces = "a";
  service.say(a, fresh);
  proto::Join join = ServiceScript::join_of("a", nodes(2, 2, 3));
  join.was_in = proto::PastRound{1, 6, 2};
  service.say(a, 1, join);
  CHECK(service.last<Round>(a) == nullptr);
  service.pass(17s, {a, b});
  CHECK(service.last<Round>(a) == nullptr);
  service.pass(200ms, {a, b});
  REQUIRE(service.last<Round>(a) != nullptr);
  // What was counted goes on, in an epoch of its own.
  CHECK(service.last<Round>(a)->epoch == 2);
  CHECK(service.last<Round>(a)->number == 7);
  CHECK(service.last<Round>(a)->restart_count == 2);
}

TEST_CASE("a service forms no round beside workers that its killed predecessor left") {
  rdzv::ServiceSettings settings = ServiceScript::with_secret();
  ServiceScript killed(settings);
  CHECK(killed.core.lease_of_workers(killed.now) == std::nullopt);
  static_cast<void>(killed.join("a", nodes(2, 2, 3)));
  CHECK(killed.core.lease_of_workers(killed.now) == std::nullopt);
  static_cast<void>(killed.join("b", nodes(2, 2, 3)));
  settings.past_lease = killed.core.lease_of_workers(killed.now);
  REQUIRE(settings.past_lease == 15s);

  ServiceScript service(settings);
  CHECK(service.core.lease_of_workers(service.now) == 15s);  // should it be killed, too
  // The old agents cannot tell of themselves, and as many new ones come as the job may have.
  const auto c = service.join("c", nodes(2, 2, 3));
  const auto d = service.join("d", nodes(2, 2, 3));
  CHECK(service.last<Round>(c) == nullptr);
  REQUIRE(service.warnings.size() == 1);
  CHECK_THAT(service.warnings[0], Catch::Matchers::Contains("no workers are started for 18 s"));
  service.pass(17s, {c, d});
  CHECK(service.last<Round>(c) == nullptr);
  service.pass(200ms, {c, d});
  CHECK(service.last<Round>(c) != nullptr);
  CHECK(service.last<Round>(d) != nullptr);
  for (const auto agent : {c, d}) service.say(agent, 2, proto::WorkersDone{0});
  CHECK(service.core.lease_of_workers(service.now) == std::nullopt);
}

TEST_CASE("a service that has run for long need not wait for a past that it does not know") {
  ServiceScript service;
  service.now += 1min;
  const auto a = service.open();
  service.say(a, ServiceScript::resume_of("a", 5));
  proto::Resume fresh;
  fresh.agent = "a/2";
  service.say(a, fresh);
  proto::Join join = ServiceScript::join_of("a", nodes(1, 1, 3));
  join.was_in = proto::PastRound{1, 6, 2};
  service.say(a, 1, join);
  CHECK(service.last<Round>(a) != nullptr);
}

TEST_CASE("what a journal brings back is what was there, wherever it ends") {
  ServiceScript service;
  const auto a = service.join("a", nodes(1, 2, 1));
  const auto b = service.join("b", nodes(1, 2, 1));
  proto::WorkerFailed failed;
  failed.exit = {true, 9, false};
  service.say(a, 2, failed);
  service.say(a, 3, proto::Stopped{0, {}});
  service.say(b, 2, proto::Stopped{0, {}});
  service.say(a, 4, ServiceScript::join_of("a", nodes(1, 2, 1)));
  service.say(b, 3, ServiceScript::join_of("b", nodes(1, 2, 1)));
  REQUIRE(service.last<Round>(a)->number == 1);
  service.end(b, true);
  service.pass(100ms, {a});
  const auto whole = service.journal;
  REQUIRE(whole.size() == 11);
  for (std::size_t count = 3; count <= whole.size(); ++count) {
    ServiceScript again;
    again.now = whole[count - 1].at;
    again.journal.assign(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(count));
    again.restart();
    const auto observer = again.open("");
    again.say(observer, proto::StatusRequest{});
    const auto* status = again.last<proto::Status>(observer);
    REQUIRE(status != nullptr);
    REQUIRE(status->jobs.size() == 1);
    const auto connection = again.open();
    again.say(connection, ServiceScript::resume_of("a", 9));
    CHECK(again.last<Welcome>(connection)->resumed);
    const auto said =
        std::count_if(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(count),
                      [](const rdzv::JobRecord& record) {
                        const auto* one = std::get_if<rdzv::Said>(&record.event);
                        return one != nullptr && one->agent == "a";
                      });
    CHECK(again.last<Welcome>(connection)->acknowledged == static_cast<std::uint64_t>(said));
  }
}

TEST_CASE("an old copy of a journal is found out, and two groups never run beside each other") {
  ServiceScript service;
  const auto a = service.join("a", nodes(1, 2, 3));
  const auto b = service.join("b", nodes(1, 2, 3));
  const std::size_t copy = service.journal.size();
  proto::WorkerFailed failed;
  failed.exit = {true, 9, false};
  service.say(a, 2, failed);
  service.say(a, 3, proto::Stopped{0, {}});
  service.say(a, 4, ServiceScript::join_of("a", nodes(1, 2, 3)));
  service.say(b, 2, proto::Stopped{0, {}});
  service.say(b, 3, ServiceScript::join_of("b", nodes(1, 2, 3)));
  REQUIRE(service.last<Round>(a)->number == 1);
  service.pass(30s, {a, b});
  service.journal.resize(copy);
  service.restart();
  // It was away while the old round was stopped, so its word agrees with the copy.
  const auto of_b = service.open();
  service.say(of_b, ServiceScript::resume_of("b", 4));
  REQUIRE(service.last<Welcome>(of_b)->resumed);
  auto of_a = service.open();
  proto::Resume newer = ServiceScript::resume_of("a", 5);
  const bool by_round = GENERATE(true, false);
  if (by_round) {
    newer.round = 1;
  } else {
    newer.acknowledged = 4;
  }
  service.say(of_a, newer);
  REQUIRE(service.last<Welcome>(of_a) != nullptr);
  CHECK_FALSE(service.last<Welcome>(of_a)->resumed);
  CHECK(service.closed == std::set{of_b});
  REQUIRE(service.warnings.size() == 1);
  CHECK(service.warnings[0].find("journal is older") != std::string::npos);
  // One is back at once, the other may have workers for a whole lease; also after a restart.
  if (GENERATE(true, false)) {
    service.restart();
    of_a = service.open();
  }
  proto::Resume fresh;
  fresh.agent = "a/2";
  service.say(of_a, fresh);
  proto::Join join = ServiceScript::join_of("a", nodes(1, 2, 3));
  join.was_in = proto::PastRound{1, 1, 1};
  service.say(of_a, 1, join);
  service.pass(17s, {of_a});
  CHECK(service.last<Round>(of_a) == nullptr);
  service.pass(31s, {of_a});
  REQUIRE(service.last<Round>(of_a) != nullptr);
  CHECK(service.last<Round>(of_a)->epoch == 2);
  CHECK(service.last<Round>(of_a)->number == 2);
  CHECK(service.last<Round>(of_a)->restart_count == 1);
}

TEST_CASE("what nodes tell of the past counts also if the memory is lost twice") {
  ServiceScript service;
  const auto join_again = [&](const std::string& node, const std::string& agent) {
    const auto connection = service.begin(agent);
    proto::Join join = ServiceScript::join_of(node, nodes(2, 2, 3));
    join.was_in = proto::PastRound{1, 6, 2};
    service.say(connection, 1, join);
    return connection;
  };
  // It has no journal, and learns from one node that it is in the second epoch.
  static_cast<void>(join_again("a", "a/2"));
  static_cast<void>(join_again("b", "b/2"));
  service.journal.pop_back();
  service.restart();
  proto::Resume newer = ServiceScript::resume_of("b/2", 2);
  newer.epoch = 2;
  newer.acknowledged = 1;
  service.say(service.open(), newer);
  REQUIRE(service.warnings.size() == 1);
  CHECK(service.warnings[0].find("journal is older") != std::string::npos);

  const auto a = join_again("a", "a/3");
  const auto b = join_again("b", "b/3");
  service.pass(18s, {a, b});
  REQUIRE(service.last<Round>(a) != nullptr);
  CHECK(service.last<Round>(a)->epoch == 2);
  CHECK(service.last<Round>(a)->number == 7);
  CHECK(service.last<Round>(a)->restart_count == 2);
}

TEST_CASE("a job of which the memory was lost goes in the end, if none of its agents comes back") {
  ServiceScript service;
  const auto a = service.join("a", nodes(1, 2, 3));
  const std::size_t copy = service.journal.size();
  service.say(a, 2, proto::Leave{SIGTERM, "", false});
  service.journal.resize(copy);
  service.restart();
  proto::Resume newer = ServiceScript::resume_of("a", 3);
  newer.acknowledged = 2;
  service.say(service.open(), newer);
  REQUIRE(service.warnings.size() == 1);
  service.restart();
  service.pass(59min);
  CHECK(service.core.job("job") != nullptr);
  service.pass(2min);
  CHECK(service.core.job("job") == nullptr);
  CHECK_FALSE(service.core.deadline().has_value());
}

TEST_CASE("a node that was cut off while the job ended is told how, though it joins no more") {
  ServiceScript service;
  const auto a = service.join("a", nodes(2, 2, 0));
  const auto b = service.join("b", nodes(2, 2, 0));
  service.pass(20s, {a, b});
  service.say(a, 2, proto::Leave{SIGINT, "", true});
  REQUIRE(service.last<Stop>(b) != nullptr);
  REQUIRE(service.last<Stop>(b)->final);
  const bool comes_before_the_end = GENERATE(true, false);
  if (comes_before_the_end) {
    service.pass(18s, {a});
  } else {
    service.say(a, 3, proto::Stopped{0, {}});
    service.pass(18s, {a});
  }
  const auto again = service.open();
  proto::Resume fresh;
  fresh.agent = "b/2";
  fresh.replaces = "b";
  fresh.age = 40s;
  service.say(again, fresh);
  if (comes_before_the_end) service.say(a, 3, proto::Stopped{0, {}});
  REQUIRE(service.last<Finished>(again) != nullptr);
  CHECK(service.last<Finished>(again)->outcome == Finished::Outcome::cancelled);
  // Another one means to run the job again.
  service.pass(10s, {a});
  const auto later = service.open();
  fresh = {};
  fresh.agent = "c";
  fresh.age = 1s;
  service.say(later, fresh);
  CHECK(service.last<Finished>(later) == nullptr);
}

TEST_CASE("a node of the past that comes when a round is out is heard in the next one") {
  ServiceScript service;
  const auto b = service.join("b", nodes(1, 2, 3));
  service.pass(31s, {b});
  REQUIRE(service.last<Round>(b) != nullptr);
  const auto a = service.begin("a");
  proto::Join join = ServiceScript::join_of("a", nodes(1, 2, 3));
  join.was_in = proto::PastRound{1, 7, 2};
  service.say(a, 1, join);
  service.pass(6s, {a, b});
  REQUIRE(service.last<Stop>(b) != nullptr);
  CHECK(service.last<Stop>(b)->round == 0);
  service.say(b, 2, proto::Stopped{0, {}});
  service.say(b, 3, ServiceScript::join_of("b", nodes(1, 2, 3)));
  REQUIRE(service.last<Round>(a) != nullptr);
  CHECK(service.last<Round>(a)->epoch == 2);
  CHECK(service.last<Round>(a)->number == 8);
  CHECK(service.last<Round>(a)->restart_count == 2);
}

TEST_CASE("a service without memory forms no round of some nodes until old leases are over") {
  rdzv::ServiceSettings settings;
  settings.remembers = GENERATE(true, false);
  ServiceScript service(settings);
  proto::JobSettings job = nodes(1, 2, 3);
  job.last_call = 100ms;
  const auto a = service.join("a", job);
  service.pass(1s, {a});
  // With a journal it would know of them.
  CHECK((service.last<Round>(a) != nullptr) == settings.remembers);
  service.pass(17s, {a});
  CHECK(service.last<Round>(a) != nullptr);
}

TEST_CASE("a wait for old leases is one event, not many") {
  ServiceScript service;
  proto::JobSettings job = nodes(1, 2, 3);
  job.last_call = 100ms;
  const auto a = service.join("a", job);
  const auto old = service.open();
  service.say(old, ServiceScript::resume_of("old", 5));
  service.pass(16s, {a});
  CHECK(service.journal.size() < 30);
}
