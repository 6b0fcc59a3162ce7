// A past whose workers may still run is waited for, whatever happens meanwhile.
#include "tests/unit/rendezvous/service/service_script.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using proto::Finished;
using proto::Round;
using proto::Welcome;
using test::nodes;
using test::ServiceScript;

TEST_CASE("a past is waited for also by who joins after the first one has left again") {
  ServiceScript service;
  const auto a = service.open();
  service.say(a, ServiceScript::resume_of("a", 5));  // it tells of workers that may run
  proto::Resume fresh;
  fresh.agent = "a/2";
  fresh.replaces = "a";
  service.say(a, fresh);
  service.say(a, 1, ServiceScript::join_of("a", nodes(1, 2, 3)));
  service.say(a, 2, proto::Leave{});
  REQUIRE(service.last<Finished>(a) != nullptr);
  service.now += 1s;  // who was there when the job ended is told of that
  const auto b = service.join("b", nodes(1, 1, 3));
  service.pass(16s, {b});
  CHECK(service.last<Round>(b) == nullptr);
  service.pass(200ms, {b});
  CHECK(service.last<Round>(b) != nullptr);
}

TEST_CASE("a service that was killed while it waited for a past waits for it again") {
  rdzv::ServiceSettings settings = ServiceScript::with_secret();
  settings.remembers = false;
  ServiceScript service(settings);
  const bool comes_back = GENERATE(true, false);  // one that tells of the past
  // Three have workers, and only two of them have come when the service is killed, to be away for
  // longer than a lease: the third cannot reach it, and so goes on.
  const auto a = service.open();
  if (comes_back) service.say(a, ServiceScript::resume_of("a", 5));
  proto::Resume fresh;
  fresh.agent = "a/2";
  fresh.replaces = "a";
  service.say(a, fresh);
  service.say(a, 1, ServiceScript::join_of("a", nodes(2, 3, 3)));
  static_cast<void>(service.join("b", nodes(2, 3, 3)));
  service.now += 60s;
  service.restart();
  std::vector<rdzv::ConnectionId> here;
  for (const std::string agent : {"a/2", "b"}) {
    here.push_back(service.open());
    service.say(here.back(), ServiceScript::resume_of(agent, 2));
    CHECK(service.last<Welcome>(here.back())->resumed);
  }
  service.pass(17s, here);
  CHECK(service.last<Round>(here[0]) == nullptr);
  service.restart();  // what it waits for is in its journal, too
  here.clear();
  for (const std::string agent : {"a/2", "b"}) {
    here.push_back(service.open());
    service.say(here.back(), ServiceScript::resume_of(agent, 2));
  }
  service.pass(17s, here);
  CHECK(service.last<Round>(here[0]) == nullptr);
  service.pass(200ms + (comes_back ? nodes(2, 3, 3).last_call : 0s), here);
  REQUIRE(service.last<Round>(here[0]) != nullptr);
  CHECK(service.last<Round>(here[0])->group_world_size == 2);
}
