// What an observer is told of the jobs and nodes of a service, however many there are.
#include <algorithm>

#include "proto/fit_frame.hpp"
#include "proto/message_limits.hpp"
#include "tests/unit/rendezvous/service/service_script.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using proto::Finished;
using test::nodes;
using test::ServiceScript;

namespace {

struct Listed {
  int pages = 0;
  std::vector<std::string> jobs;     ///< a job on two pages twice
  std::vector<std::string> members;  ///< RUN_ID/AGENT
};

/// All pages, one after the other. Each fits into a frame.
Listed list(ServiceScript& service, const std::string& run_id = "") {
  Listed listed;
  const auto observer = service.open(run_id);
  proto::StatusRequest request;
  for (;;) {
    service.say(observer, request);
    const auto* page = service.last<proto::Status>(observer);
    REQUIRE(page != nullptr);
    ++listed.pages;
    const std::string bytes = proto::encode(proto::ServiceMessage(*page));
    CHECK(bytes.size() <= proto::kMessageBytesMax);
    CHECK(proto::decode_service_message(bytes).has_value());
    for (const proto::JobStatus& job : page->jobs) {
      listed.jobs.push_back(job.run_id);
      for (const proto::MemberStatus& member : job.members)
        listed.members.push_back(job.run_id + "/" + member.agent);
    }
    if (!page->next) return listed;
    REQUIRE(*page->next > request.from);
    request.from = *page->next;
  }
}

}  // namespace

TEST_CASE("status names the jobs, their rounds and nodes") {
  ServiceScript service;
  const auto a = service.join("a", nodes(2, 2, 3), "train-7");
  const auto b = service.join("b", nodes(2, 2, 3), "train-7");
  static_cast<void>(service.join("c", nodes(2, 2, 3), "other"));
  service.end(b, false);
  service.pass(5s, {a});
  const auto observer = service.open(GENERATE("", "train-7"));
  service.say(observer, proto::StatusRequest{});
  const auto* status = service.last<proto::Status>(observer);
  REQUIRE(status != nullptr);
  const proto::JobStatus& job = status->jobs.back();
  CHECK(job.run_id == "train-7");
  CHECK(job.phase == "running");
  CHECK(job.round == 0u);
  CHECK(job.nodes == 2);
  CHECK(job.age == 5s);
  REQUIRE(job.members.size() == 2);
  CHECK(job.members[0].connected);
  CHECK(job.members[0].group_rank == 0);
  CHECK_FALSE(job.members[1].connected);
  CHECK(job.members[1].silent_for == 5s);
}

TEST_CASE("status counts the nodes that it lists, also when their job has ended") {
  ServiceScript service;
  const auto a = service.join("a", nodes(2, 2, 3));
  const auto b = service.join("b", nodes(2, 2, 3));
  const auto seen = [&] {
    const auto observer = service.open();
    service.say(observer, proto::StatusRequest{});
    REQUIRE(service.last<proto::Status>(observer) != nullptr);
    return service.last<proto::Status>(observer)->jobs.at(0);
  };
  for (const auto agent : {a, b}) service.say(agent, 2, proto::WorkersDone{0});
  REQUIRE(service.last<Finished>(a) != nullptr);
  CHECK(seen().phase == "finished");
  CHECK(seen().nodes == 2);
  CHECK(seen().members.size() == 2);
  service.say(a, proto::Bye{});
  CHECK(seen().nodes == 1);
  CHECK(seen().members.size() == 1);
  service.say(b, proto::Bye{});
  CHECK(seen().phase == "finished");
  CHECK(seen().nodes == 0);
  CHECK(seen().members.empty());
}

TEST_CASE("a status of a large job is complete in pages that fit into frames") {
  ServiceScript service;
  std::vector<std::string> expected;
  for (int i = 0; i < 10'000; ++i) {
    static_cast<void>(service.begin(std::to_string(100'000 + i), "large"));
    expected.push_back("large/" + std::to_string(100'000 + i));
  }
  static_cast<void>(service.begin("a", "another"));
  CHECK(list(service, "large").members == expected);
  CHECK(list(service, "large").pages == 10);
  expected.insert(expected.begin(), "another/a");
  CHECK(list(service).members == expected);
  CHECK(list(service, "none").members.empty());
}

TEST_CASE("a status of many jobs and of the longest names is complete") {
  const std::string longest(proto::kNameBytesMax - 4, '\x01');
  ServiceScript service;
  std::vector<std::string> jobs;
  std::vector<std::string> members;
  for (int i = 1000; i < 2200; ++i) {
    jobs.push_back(std::to_string(i) + longest);
    members.push_back(jobs.back() + "/" + longest);
    static_cast<void>(service.begin(longest, jobs.back()));
  }
  Listed listed = list(service);
  CHECK(listed.members == members);
  CHECK(listed.pages > 2);
  listed.jobs.erase(std::unique(listed.jobs.begin(), listed.jobs.end()), listed.jobs.end());
  CHECK(listed.jobs == jobs);
}

TEST_CASE(
    "after a restart of the service a silence is known to be longer, until the agent is heard") {
  ServiceScript service;
  const auto a = service.join("a", nodes(2, 2, 3));
  static_cast<void>(service.join("b", nodes(2, 2, 3)));
  service.pass(5s, {a});
  service.restart();
  service.pass(3s);
  proto::Resume resume;
  resume.agent = "a";
  resume.epoch = 1;
  resume.round = 0;
  resume.next_seq = 2;
  service.say(service.open(), resume);
  const auto observer = service.open();
  service.say(observer, proto::StatusRequest{});
  REQUIRE(service.last<proto::Status>(observer) != nullptr);
  const auto& members = service.last<proto::Status>(observer)->jobs.at(0).members;
  REQUIRE(members.size() == 2);
  CHECK_FALSE(members[0].silent_for_longer);
  CHECK(members[1].silent_for_longer);
  CHECK(members[1].silent_for == 3s);
  service.pass(30s);
  const auto lost =
      std::find_if(service.journal.begin(), service.journal.end(), [](const auto& one) {
        const auto* event = std::get_if<rdzv::SessionLost>(&one.event);
        return event != nullptr && event->agent == "b";
      });
  REQUIRE(lost != service.journal.end());
  CHECK(std::get<rdzv::SessionLost>(lost->event).silent_for_longer);
}
