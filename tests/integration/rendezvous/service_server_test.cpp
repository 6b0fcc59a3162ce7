// The rendezvous service over loopback: agents form rounds, lose it, prove themselves.
#include "rendezvous/service/service_server.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <thread>

#include "proto/frame.hpp"
#include "tests/integration/rendezvous/elsewhere.hpp"
#include "tests/integration/rendezvous/raw_client.hpp"
#include "tests/integration/rendezvous/served_agents.hpp"
#include "tests/integration/rendezvous/server_here.hpp"
#include "tests/integration/rendezvous/service_agent.hpp"
#include "tests/support/child.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using proto::Round;
using proto::Stop;
using rdzv::ServiceServer;
using rdzv::ServiceServerSettings;
using test::run_until;
using test::ServedAgents;
using test::ServerHere;
using test::ServiceAgent;

TEST_CASE("agents over real connections form a round, lose a worker and form another") {
  const std::string secret = GENERATE("", "a secret");
  ServiceServerSettings settings;
  settings.secret = secret;
  ServedAgents served(settings);
  boost::asio::io_context context;
  std::deque<ServiceAgent> agents;
  for (const std::string name : {"a", "b", "c"})
    agents.emplace_back(context, name, served.place(secret)).join(3, 3);
  const auto all = [&](auto holds) {
    return run_until(context, [&] { return std::all_of(agents.begin(), agents.end(), holds); });
  };
  REQUIRE(all([](const auto& agent) { return agent.template has<Round>(); }));
  CHECK(agents[2].last<Round>()->group_rank == 2);
  CHECK(agents[2].last<Round>()->world_size == 3);
  CHECK(agents[2].last<Round>()->master_addr == "a");

  proto::WorkerFailed failed;
  failed.exit = {true, 9, false};
  agents[1].link->send(failed);
  REQUIRE(all([](const auto& agent) { return agent.template has<Stop>(); }));
  for (auto& agent : agents) {
    agent.link->send(proto::Stopped{0, {}});
    agent.join(3, 3);
  }
  REQUIRE(all([](const auto& agent) { return agent.template last<Round>()->number == 1; }));
  for (auto& agent : agents) agent.link->send(proto::WorkersDone{1});
  REQUIRE(all([](const auto& agent) { return agent.template has<proto::Finished>(); }));
  CHECK(agents[0].last<proto::Finished>()->outcome == proto::Finished::Outcome::succeeded);
  CHECK(agents[0].last<proto::Finished>()->restart_count == 1);
  CHECK(run_until(context, [&] { return served.server->is_idle(); }));
}

TEST_CASE("the agent in the service's own process needs no network") {
  ServedAgents served;
  boost::asio::io_context context;
  ServerHere here(*served.server, 0);
  rdzv::ServicePlace place = served.place();
  place.port = 1;  // no service is there
  place.own = &here;
  ServiceAgent host(context, "host", place);
  ServiceAgent other(context, "other", served.place());
  host.join(2, 2);
  other.join(2, 2);
  CHECK(run_until(context, [&] { return host.has<Round>() && other.has<Round>(); }));
}

TEST_CASE("each attempt asks anew whether the service is in the agent's own process") {
  ServedAgents served;
  boost::asio::io_context context;
  ServerHere here(*served.server, 3);
  rdzv::ServicePlace place = served.place();
  place.port = 1;  // no service is there
  place.own = &here;
  ServiceAgent host(context, "host", place);
  host.join(1, 1);
  CHECK(run_until(context, [&] { return host.has<Round>(); }));
  CHECK(here.left() == 0);
}

TEST_CASE("after its welcome an agent takes over no service") {
  std::optional<ServedAgents> served(std::in_place);
  boost::asio::io_context context;
  ServerHere here(*served->server, 2);
  rdzv::ServicePlace place = served->place();
  place.own = &here;
  ServiceAgent agent(context, "agent", place);
  agent.join(1, 1);
  REQUIRE(run_until(context, [&] { return agent.has<Round>(); }));
  REQUIRE(here.left() == 1);
  served.reset();
  run_until(
      context, [] { return false; }, 1s);
  CHECK(here.left() == 1);
}

TEST_CASE("a connection that is reset is not a lost node yet") {
  ServedAgents served;
  boost::asio::io_context context;
  ServiceAgent a(context, "a", served.place());
  std::optional<ServiceAgent> b(std::in_place, context, "b", served.place());
  a.join(1, 2);
  b->join(1, 2);
  REQUIRE(run_until(context, [&] { return a.has<Round>() && b->has<Round>(); }));
  b.reset();
  run_until(
      context, [] { return false; }, 1s);
  CHECK_FALSE(a.has<Stop>());
}

TEST_CASE("a connection that ends in order is a lost node at once") {
  ServedAgents served;
  boost::asio::io_context context;
  boost::asio::io_context context_of_b;
  ServiceAgent b(context_of_b, "b", served.place());
  b.join(1, 2);
  REQUIRE(run_until(context_of_b, [&] { return b.has<proto::Waiting>(); }));
  ServiceAgent a(context, "a", served.place());
  a.join(1, 2);
  run_until(context, [&] { return a.has<Round>(); });
  REQUIRE(run_until(context_of_b, [&] { return b.has<Round>(); }));
  REQUIRE(run_until(context, [&] { return a.has<Round>(); }));
  // As a warden ends it: the agent of b is no more, and does nothing from here on.
  for (int fd = 3; fd < 1024; ++fd) {
    sockaddr_in peer{};
    socklen_t length = sizeof peer;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) != 0) continue;
    if (peer.sin_family != AF_INET || ntohs(peer.sin_port) != served.server->port()) continue;
    shutdown(fd, SHUT_WR);  // the older of the two: that of b
    break;
  }
  REQUIRE(run_until(context, [&] { return a.has<Stop>(); }));
  CHECK(a.last<Stop>()->reason == "b (rank 1) was lost: its connection ended");
}

TEST_CASE("agents outlive a service, and begin again with one that knows nothing of them") {
  boost::asio::io_context context;
  auto served = std::make_unique<ServedAgents>();
  const std::uint16_t port = served->server->port();
  ServiceAgent a(context, "a", served->place(), 500ms);
  ServiceAgent b(context, "b", served->place(), 500ms);
  a.join(2, 2);
  b.join(2, 2);
  REQUIRE(run_until(context, [&] { return a.has<Round>() && b.has<Round>(); }));
  served.reset();
  // No service is there: that renews the lease of half a second.
  run_until(
      context, [] { return false; }, 2s);
  CHECK_FALSE(a.has<Stop>());
  CHECK_FALSE(b.has<Stop>());
  served = std::make_unique<ServedAgents>(ServiceServerSettings{}, port);
  REQUIRE(run_until(context, [&] { return a.has<Stop>() && b.has<Stop>(); }));
  CHECK(a.last<Stop>()->kill);
  a.link->send(proto::Stopped{0, {}});
  b.link->send(proto::Stopped{0, {}});
  a.join(2, 2);
  b.join(2, 2);
  REQUIRE(run_until(context, [&] { return b.last<Round>()->number == 1; }));
  CHECK(b.last<Round>()->epoch == 2);
}

TEST_CASE("an agent with a wrong or without a secret is told, and told what to do") {
  ServiceServerSettings settings;
  settings.secret = "right";
  ServedAgents served(settings);
  boost::asio::io_context context;
  ServiceAgent wrong(context, "wrong", served.place("wrong"));
  REQUIRE(run_until(context, [&] { return wrong.has<proto::Finished>(); }));
  CHECK(wrong.last<proto::Finished>()->reason.ends_with(
      "it has another secret than the rendezvous; all need the same file (--rdzv-secret-file)"));
  CHECK(served.lines.have("not from a peer that has the secret"));
  ServiceAgent none(context, "none", served.place());
  REQUIRE(run_until(context, [&] { return none.has<proto::Finished>(); }));
  CHECK(none.last<proto::Finished>()->reason.find("asks for a secret") != std::string::npos);
}

TEST_CASE("nodes that wait are told of one with a wrong or without a secret") {
  for (const char* secret : {"wrong", ""}) {
    ServiceServerSettings settings;
    settings.secret = "right";
    ServedAgents served(settings);
    boost::asio::io_context context;
    ServiceAgent waiting(context, "waiting", served.place("right"));
    waiting.join(2, 2);
    REQUIRE(run_until(context, [&] { return waiting.has<proto::Waiting>(); }));
    ServiceAgent other(context, "other", served.place(secret));
    REQUIRE(run_until(context, [&] { return waiting.has<proto::Remark>(); }));
    CHECK(waiting.last<proto::Remark>()->text ==
          "a connection from 127.0.0.1 was refused: it has another --rdzv-secret-file than the "
          "rendezvous, or none");
  }
}

TEST_CASE("a client of a store is handed over, with all that it said") {
  std::mutex mutex;
  std::vector<UniqueFd> handed;
  ServiceServerSettings settings;
  settings.silent_within = 300ms;
  settings.on_store_client = [&](UniqueFd fd) {
    const std::lock_guard lock(mutex);
    handed.push_back(std::move(fd));
  };
  ServedAgents served(settings);
  const auto count = [&] {
    const std::lock_guard lock(mutex);
    return handed.size();
  };
  boost::asio::io_context context;
  SECTION("that begins with VALIDATE") {
    test::RawClient client(served.server->port());
    client.send(std::string("\0\xce\xf7\x85\x3c\x0d", 6));
    REQUIRE(run_until(context, [&] { return count() == 1; }));
    char bytes[16];
    CHECK(recv(handed[0].get(), bytes, sizeof bytes, MSG_DONTWAIT) == 6);
  }
  SECTION("that says nothing") {
    const test::RawClient client(served.server->port());
    CHECK(run_until(context, [&] { return count() == 1; }));
  }
}

TEST_CASE("a service without a port of its own serves the connections that it adopts, in turn") {
  ServiceServerSettings settings;
  settings.silent_within = 300ms;
  settings.newcomers.places = 1;
  auto started = ServiceServer::start({{}, "127.0.0.1", 1}, settings);
  REQUIRE(started.has_value());
  const test::Elsewhere elsewhere;
  constexpr int kSilent = 3;
  std::deque<test::RawClient> silent;
  for (int i = 0; i < kSilent; ++i) silent.emplace_back(elsewhere.port());
  std::thread adopter([&] {
    for (int i = 0; i < kSilent + 2; ++i) started->adopt(elsewhere.accept());
  });
  boost::asio::io_context context;
  rdzv::ServicePlace place;
  place.host = "127.0.0.1";
  place.port = elsewhere.port();
  place.run_id = "job";
  ServiceAgent a(context, "a", place);
  ServiceAgent b(context, "b", place);
  a.join(2, 2);
  b.join(2, 2);
  CHECK(run_until(context, [&] { return a.has<Round>() && b.has<Round>(); }));
  adopter.join();
  CHECK(started->agents() == 2);
  for (auto& client : silent) CHECK(client.closed());
}
