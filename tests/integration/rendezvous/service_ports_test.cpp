// A rendezvous service that may be at one of several ports: an agent finds the one of its job.
#include <string>

#include "proto/frame.hpp"
#include "tests/integration/rendezvous/elsewhere.hpp"
#include "tests/integration/rendezvous/served_agents.hpp"
#include "tests/integration/rendezvous/service_agent.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using proto::Round;
using rdzv::ServiceServerSettings;
using test::run_until;
using test::ServedAgents;
using test::ServiceAgent;

namespace {

/// A port at which nothing listens.
std::uint16_t closed_port() {
  const test::Elsewhere elsewhere;
  return elsewhere.port();
}

ServiceServerSettings only(const std::string& run_id) {
  ServiceServerSettings settings;
  settings.service.only_run_id = run_id;
  return settings;
}

}  // namespace

TEST_CASE("an agent finds its service behind ports that are closed, another's and a stranger's") {
  ServedAgents served(only("job"));
  ServedAgents foreign(only("another job"));
  const test::Elsewhere silent;  // takes connections, and never answers
  boost::asio::io_context context;
  rdzv::ServicePlace place = served.place();
  const std::uint16_t port = place.port;
  place.port = closed_port();
  place.more_ports = {foreign.server->port(), silent.port(), closed_port(), port};
  ServiceAgent agent(context, "agent", place);
  agent.join(1, 1);
  CHECK(run_until(context, [&] { return agent.has<Round>(); }));
}

TEST_CASE("an agent goes by a service that asks for another secret") {
  ServiceServerSettings settings = only("another job");
  settings.secret = "a secret of others";
  ServedAgents foreign(settings);
  ServedAgents served(only("job"));
  boost::asio::io_context context;
  rdzv::ServicePlace place = served.place();
  place.more_ports = {place.port};
  place.port = foreign.server->port();
  ServiceAgent agent(context, "agent", place);
  agent.join(1, 1);
  CHECK(run_until(context, [&] { return agent.has<Round>(); }));
}

TEST_CASE("an agent goes by an rdzvd, which would serve its job, too") {
  ServedAgents many(only(""));
  ServedAgents served(only("job"));
  boost::asio::io_context context;
  rdzv::ServicePlace place = served.place();
  const std::uint16_t port = place.port;
  place.more_ports = {port};
  place.port = many.server->port();
  ServiceAgent agent(context, "agent", place);
  ServiceAgent other(context, "other", served.place());
  agent.join(2, 2);
  other.join(2, 2);
  CHECK(run_until(context, [&] { return agent.has<Round>() && other.has<Round>(); }));
}

TEST_CASE("a service that starts later at one of the ports is found") {
  ServedAgents foreign(only("another job"));
  boost::asio::io_context context;
  const std::uint16_t port = closed_port();
  rdzv::ServicePlace place = foreign.place();
  place.more_ports = {closed_port(), port};
  ServiceAgent agent(context, "agent", place);
  agent.join(1, 1);
  CHECK_FALSE(run_until(
      context, [&] { return agent.has<Round>(); }, 1s));
  ServedAgents served(only("job"), port);
  CHECK(run_until(context, [&] { return agent.has<Round>(); }));
}

TEST_CASE("of one port only, the service of another job refuses the agent at once") {
  ServedAgents foreign(only("another job"));
  boost::asio::io_context context;
  ServiceAgent agent(context, "agent", foreign.place());
  agent.join(1, 1);
  REQUIRE(run_until(context, [&] { return agent.has<proto::Finished>(); }));
  CHECK(agent.last<proto::Finished>()->outcome != proto::Finished::Outcome::succeeded);
}
