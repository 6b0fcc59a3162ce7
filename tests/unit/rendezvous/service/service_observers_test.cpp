// A person gives up a node that is dead, and how the service guards against a mistake.
#include <algorithm>

#include "tests/unit/rendezvous/service/service_script.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using proto::Fence;
using proto::Refused;
using proto::Round;
using proto::Status;
using proto::Stop;
using test::nodes;
using test::ServiceScript;

namespace {

std::string refused_fence(ServiceScript& service, const std::string& node,
                          const std::string& run_id = "job") {
  const auto observer = service.open(run_id);
  service.say(observer, Fence{node});
  REQUIRE(service.last<Refused>(observer) != nullptr);
  CHECK(service.last<Refused>(observer)->why == Refused::Why::no_fence);
  CHECK(service.last<Status>(observer) == nullptr);
  CHECK(service.closed.contains(observer));
  return service.last<Refused>(observer)->reason;
}

bool is_lost(const ServiceScript& service, const std::string& agent) {
  return std::any_of(service.journal.begin(), service.journal.end(), [&](const auto& record) {
    const auto* lost = std::get_if<rdzv::SessionLost>(&record.event);
    return lost != nullptr && lost->agent == agent;
  });
}

}  // namespace

TEST_CASE("a fenced node is lost at once, and the next round forms without it") {
  ServiceScript service;
  const auto a = service.join("a", nodes(1, 2, 3));
  const auto b = service.join("b", nodes(1, 2, 3));
  REQUIRE(service.last<Round>(a) != nullptr);
  REQUIRE(service.last<Round>(a)->group_world_size == 2);
  service.end(b, false);
  REQUIRE(service.last<Stop>(a) == nullptr);  // a reset proves nothing
  CHECK_FALSE(refused_fence(service, "b").empty());
  service.pass(6s, {a});
  const auto observer = service.open();
  service.say(observer, Fence{"b"});
  CHECK(service.last<Refused>(observer) == nullptr);
  REQUIRE(service.last<Status>(observer) != nullptr);
  REQUIRE(service.last<Status>(observer)->jobs.size() == 1);
  CHECK(service.last<Status>(observer)->jobs[0].phase == "stopping");
  CHECK(service.last<Status>(observer)->jobs[0].members.size() == 1);
  CHECK(is_lost(service, "b"));
  REQUIRE(service.warnings.size() == 1);
  CHECK(service.warnings[0] ==
        "job 'job': the node 'b' (agent b) was given up at the request of 10.0.0.1");
  REQUIRE(service.last<Stop>(a) != nullptr);
  CHECK(service.last<Stop>(a)->reason.find("b (ranks 2 and 3) was lost: rdzvd --fence") == 0);
  service.say(a, 2, proto::Stopped{0, {}});
  service.say(a, 3, ServiceScript::join_of("a", nodes(1, 2, 3)));
  REQUIRE(service.last<Round>(a)->number == 1);
  CHECK(service.last<Round>(a)->group_world_size == 1);

  // What was said stays true: also after a restart the node's old session is over.
  service.restart();
  proto::Resume old;
  old.agent = "b";
  old.epoch = 1;
  old.round = 0;
  const auto again = service.open();
  service.say(again, old);
  REQUIRE(service.last<proto::Welcome>(again) != nullptr);
  CHECK_FALSE(service.last<proto::Welcome>(again)->resumed);
}

TEST_CASE("a node with an agent that is heard is not fenced, one that fell silent is") {
  ServiceScript service;
  const auto a = service.join("a", nodes(2, 2, 3));
  const auto b = service.join("b", nodes(2, 2, 3));
  service.pass(5s, {a});
  CHECK(
      refused_fence(service, "b") ==
      "the node 'b' may be alive: its agent was heard 5.0 s ago. Stop that agent, or cut the node "
      "off and ask again when nothing was heard for 6.0 s");
  CHECK_FALSE(is_lost(service, "b"));
  CHECK_FALSE(service.closed.contains(b));
  service.pass(1s, {a});
  const auto observer = service.open();
  service.say(observer, Fence{"b"});
  CHECK(service.last<Status>(observer) != nullptr);
  CHECK(is_lost(service, "b"));
  CHECK(service.closed.contains(b));
  CHECK(service.last<Stop>(a) != nullptr);
}

TEST_CASE("a node to fence is named by its name or its agent, and by one of them alone") {
  ServiceScript service;
  std::vector<rdzv::ConnectionId> agents;
  for (const std::string name : {"n10", "n2", "n1"}) {
    agents.push_back(service.begin(name + ".4711"));
    service.say(agents.back(), 1, ServiceScript::join_of(name, nodes(9, 9, 3)));
  }
  CHECK(refused_fence(service, "n3") ==
        "no node of the job 'job' is named 'n3'; its nodes: n1, n2, n10");
  const auto twin = service.begin("n2.4712");
  service.say(twin, 1, ServiceScript::join_of("n2", nodes(9, 9, 3)));
  service.end(twin, false);
  CHECK(refused_fence(service, "n2") ==
        "2 nodes of the job 'job' are named 'n2'; use the id of an agent: n2.4711, n2.4712");
  service.pass(6s, agents);
  const auto observer = service.open();
  service.say(observer, Fence{"n2.4712"});
  CHECK(service.last<Status>(observer) != nullptr);
  CHECK(is_lost(service, "n2.4712"));
  CHECK_FALSE(is_lost(service, "n2.4711"));

  for (int i = 0; i < 9; ++i) {
    const std::string name = "x" + std::to_string(i);
    service.say(service.begin(name), 1, ServiceScript::join_of(name, nodes(99, 99, 3)));
  }
  CHECK_THAT(refused_fence(service, "n3"), Contains("n1, n2, n10, x0, x1, x2, x3, x4 and 4 more"));
}

TEST_CASE("a fence is for a job that is there, and no message of agents") {
  ServiceScript service;
  const auto a = service.join("a", nodes(1, 1, 3), "one");
  CHECK(refused_fence(service, "a", "two") == "there is no job 'two'; the jobs here: one");
  const auto nobody = service.open("");
  service.say(nobody, Fence{"a"});
  REQUIRE(service.last<Refused>(nobody) != nullptr);
  CHECK(service.last<Refused>(nobody)->why == Refused::Why::broken);
  service.say(a, Fence{"a"});
  REQUIRE(service.last<Refused>(a) != nullptr);
  CHECK(service.last<Refused>(a)->why == Refused::Why::broken);
  CHECK_FALSE(is_lost(service, "a"));
}

TEST_CASE("without a secret only this machine may have a node given up") {
  rdzv::ServiceSettings settings;
  settings.has_secret = GENERATE(true, false);
  const std::string addr = GENERATE("10.0.0.7", "127.0.0.1", "::1", "");
  ServiceScript service(settings);
  const auto a = service.join("a", nodes(2, 2, 3));
  static_cast<void>(service.join("b", nodes(2, 2, 3)));
  service.pass(7s, {a});
  const auto observer = service.open("job", addr);
  service.say(observer, Fence{"b"});
  const bool allowed = settings.has_secret || addr != "10.0.0.7";
  CHECK(is_lost(service, "b") == allowed);
  const auto* refused = service.last<Refused>(observer);
  REQUIRE((refused == nullptr) == allowed);
  if (allowed) return;
  CHECK(refused->why == Refused::Why::no_fence);
  CHECK_THAT(refused->reason, Contains("only at a request over loopback: run rdzvd --fence on its "
                                       "machine"));
}

TEST_CASE("a node that has had no time to come back is not fenced") {
  ServiceScript service;
  const auto a = service.join("a", nodes(1, 2, 3));
  const auto b = service.join("b", nodes(1, 2, 3));
  service.pass(1min, {a, b});
  rdzv::Clock::duration left = 6s;
  SECTION("its connection was reset") { service.end(b, false); }
  SECTION("the service was started again") {
    service.restart();
    service.pass(1s);
    left -= 1s;
  }
  CHECK_THAT(refused_fence(service, "b"), Contains("the node 'b' may be alive"));
  service.pass(left - 1ms);
  CHECK_THAT(refused_fence(service, "b"), Contains("the node 'b' may be alive"));
  service.pass(1ms);
  service.say(service.open(), Fence{"b"});
  CHECK(is_lost(service, "b"));
}

TEST_CASE("an empty name to fence means no node, not one that has not joined") {
  ServiceScript service;
  static_cast<void>(service.begin("a/1"));
  service.pass(10s);
  CHECK(refused_fence(service, "") == "no node of the job 'job' is named ''; its nodes: a/1");
  CHECK_FALSE(is_lost(service, "a/1"));
}
