// Jobs that are over: what the journal need not keep of them, and what the service still knows.
#include "tests/unit/rendezvous/service/service_script.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using proto::Finished;
using proto::Round;
using proto::Welcome;
using test::nodes;
using test::ServiceScript;

namespace {

proto::Join join_after(std::chrono::nanoseconds age) {
  proto::Join join = ServiceScript::join_of("late", nodes(1, 1, 3));
  join.age = age;
  return join;
}

/// One that ended well; its agent knows.
void run_job(ServiceScript& service) {
  const auto a = service.join("a", nodes(1, 1, 3));
  service.now += 1min;
  service.say(a, 2, proto::WorkersDone{0});
  REQUIRE(service.last<Finished>(a) != nullptr);
  CHECK_FALSE(service.journal.empty());
  service.say(a, proto::Bye{});
}

}  // namespace

TEST_CASE("a job needs no journal, and is known on, once all its agents know how it ended") {
  ServiceScript service;
  run_job(service);
  CHECK(service.journal.empty());
  // An agent that was there when it ended is told, also by a service that has been restarted since.
  service.now += 1min;
  const auto late = service.begin("late");
  CHECK(service.journal.size() == 2);  // what is known of the past, and the session
  if (GENERATE(false, true)) {
    service.restart();
    const auto again = service.open();
    proto::Resume resume;
    resume.agent = "late";
    resume.epoch = 2;
    service.say(again, resume);
    REQUIRE(service.last<Welcome>(again)->resumed);
    service.say(again, 1, join_after(90s));
    REQUIRE(service.last<Finished>(again) != nullptr);
    service.say(again, proto::Bye{});
  } else {
    service.say(late, 1, join_after(90s));
    REQUIRE(service.last<Finished>(late) != nullptr);
    service.say(late, proto::Bye{});
  }
  CHECK(service.journal.empty());
}

TEST_CASE("the job that follows one without a journal is of the next epoch, also after a restart") {
  ServiceScript service;
  run_job(service);
  service.now += 1min;
  const auto b = service.begin("b");
  service.say(b, 1, join_after(1s));
  REQUIRE(service.last<Round>(b) != nullptr);
  CHECK(service.last<Round>(b)->epoch == 2);
  service.restart();
  const auto again = service.open();
  proto::Resume resume;
  resume.agent = "b";
  resume.epoch = 2;
  service.say(again, resume);
  REQUIRE(service.last<Round>(again) != nullptr);
  CHECK(service.last<Round>(again)->epoch == 2);
}

TEST_CASE("job time of a run that follows one without a journal goes on after a restart") {
  ServiceScript service;
  run_job(service);
  service.now += 1h;
  const auto b = service.begin("b");
  service.say(b, 1, join_after(1s));
  REQUIRE(service.last<Round>(b) != nullptr);
  service.now += 1min;
  const auto began = service.core.job("job")->began_at();
  service.restart();
  CHECK(service.core.job("job")->began_at() == began);
}

TEST_CASE("a job that has lost an agent keeps its journal, for an hour at least") {
  ServiceScript service;
  const auto a = service.join("a", nodes(1, 2, 3));
  const auto b = service.join("b", nodes(1, 2, 3));
  service.end(b, true);
  service.pass(100ms, {a});
  service.say(a, 2, proto::Stopped{0, {}});
  service.say(a, 3, proto::Leave{15, "", true});
  REQUIRE(service.last<Finished>(a) != nullptr);
  service.say(a, proto::Bye{});
  CHECK_FALSE(service.journal.empty());
  service.now += 30min;
  service.restart();
  CHECK_FALSE(service.journal.empty());
  const auto back = service.begin("b/2");
  proto::Join join = ServiceScript::join_of("b", nodes(1, 2, 3));
  join.age = 1h;
  service.say(back, 1, join);
  REQUIRE(service.last<Finished>(back) != nullptr);
  service.say(back, proto::Bye{});
  service.now += 2h;
  service.restart();
  CHECK(service.journal.empty());
}

TEST_CASE("a session that never joins leaves no journal behind") {
  ServiceScript service;
  const auto a = service.begin("a");
  CHECK_FALSE(service.journal.empty());
  service.end(a, true);
  service.pass(20s);
  CHECK(service.journal.empty());
}
