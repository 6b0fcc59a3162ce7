// The rendezvous service with a job of thousands of nodes.
#include "tests/unit/rendezvous/service/service_script.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using test::nodes;
using test::ServiceScript;

TEST_CASE("what thousands of agents cost is linear: a few messages and records each") {
  const std::size_t agents_of_job = GENERATE(1'000, 10'000);
  const auto count = static_cast<int>(agents_of_job);
  const proto::JobSettings job = nodes(count, count, 1);
  ServiceScript service;
  const auto name = [](int i) { return "node" + std::to_string(i); };
  std::vector<rdzv::ConnectionId> agents;
  const auto all_say = [&](std::uint64_t seq, const auto& message) {
    for (const rdzv::ConnectionId agent : agents) service.say(agent, seq, message);
  };

  for (int i = 0; i < count; ++i) agents.push_back(service.join(name(i), job));
  CHECK(service.messages == 2 * agents_of_job);            // Welcome, Round
  CHECK(service.journal.size() == 2 * agents_of_job + 1);  // JobBegan; SessionBegan, Join
  REQUIRE(service.last<proto::Round>(agents[234]) != nullptr);
  CHECK(service.last<proto::Round>(agents[234])->group_rank == 234);

  all_say(2, proto::Started{0});
  const rdzv::ConnectionId culprit = agents[7];
  service.say(culprit, 3, test::failed_in(0));
  CHECK(service.messages == 3 * agents_of_job);  // Stop
  for (int i = 0; i < count; ++i) {
    const rdzv::ConnectionId agent = agents[static_cast<std::size_t>(i)];
    const std::uint64_t seq = agent == culprit ? 4 : 3;
    service.say(agent, seq, proto::Stopped{0, {}});
    service.say(agent, seq + 1, ServiceScript::join_of(name(i), job));
  }
  CHECK(service.messages == 4 * agents_of_job);
  REQUIRE(service.last<proto::Round>(agents.back()) != nullptr);
  CHECK(service.last<proto::Round>(agents.back())->number == 1);
  CHECK(service.last<proto::Round>(agents.back())->restart_count == 1);

  for (const rdzv::ConnectionId agent : agents) service.say(agent, proto::KeepAlive{1, {}});
  CHECK(service.messages == 5 * agents_of_job);            // Alive
  CHECK(service.journal.size() == 5 * agents_of_job + 2);  // WorkerFailed; Started, Stopped, Join

  for (const rdzv::ConnectionId agent : agents)
    service.say(agent, agent == culprit ? 6 : 5, proto::WorkersDone{1});
  REQUIRE(service.last<proto::Finished>(culprit) != nullptr);
  CHECK(service.last<proto::Finished>(culprit)->outcome == proto::Finished::Outcome::succeeded);
  CHECK(service.messages == 6 * agents_of_job);
  CHECK(service.journal.size() == 6 * agents_of_job + 2);
  for (const rdzv::ConnectionId agent : agents) service.say(agent, proto::Bye{});
  CHECK(service.closed.size() == agents_of_job);
  CHECK(service.journal.empty());
  CHECK(service.core.is_idle());
}
