// A rendezvous service that encrypts its connections, and agents that do and that do not.
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <string>

#include "proto/frame.hpp"
#include "tests/integration/rendezvous/raw_client.hpp"
#include "tests/integration/rendezvous/served_agents.hpp"
#include "tests/integration/rendezvous/server_here.hpp"
#include "tests/integration/rendezvous/service_agent.hpp"
#include "tests/support/tls.hpp"

using namespace ddprun;
using test::run_until;
using test::ServedAgents;
using test::ServiceAgent;
using test::tls;

namespace {

using proto::Round;

const std::string kSecret = "correct horse battery staple";

rdzv::ServiceServerSettings settings(bool encrypts) {
  rdzv::ServiceServerSettings settings;
  settings.secret = kSecret;
  if (encrypts) settings.encrypter = tls();
  return settings;
}

rdzv::ServicePlace place(const ServedAgents& served, bool encrypts,
                         const std::string& secret = kSecret) {
  rdzv::ServicePlace place = served.place(secret);
  if (encrypts) place.encrypter = tls();
  return place;
}

/// A line of the service.
bool comes(const ServedAgents& served, const std::string& line) {
  boost::asio::io_context context;
  return run_until(context, [&] { return served.lines.have(line); });
}

/// Why an agent that joins is turned away.
std::string refusal(rdzv::ServicePlace place) {
  boost::asio::io_context context;
  ServiceAgent agent(context, "a", std::move(place));
  agent.join(1, 1);
  REQUIRE(run_until(context, [&] { return agent.has<proto::Finished>(); }));
  return agent.last<proto::Finished>()->reason;
}

/// The most memory that this process has had at one time.
std::size_t peak_bytes() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<std::size_t>(used.ru_maxrss) * 1024;
}

}  // namespace

TEST_CASE("agents form a round over encrypted connections") {
  ServedAgents served(settings(true));
  boost::asio::io_context context;
  ServiceAgent a(context, "a", place(served, true));
  ServiceAgent b(context, "b", place(served, true));
  a.join(2, 2);
  b.join(2, 2);
  REQUIRE(run_until(context, [&] { return a.has<Round>() && b.has<Round>(); }));
  a.link->send(proto::WorkersDone{0});
  b.link->send(proto::WorkersDone{0});
  REQUIRE(run_until(context, [&] { return a.has<proto::Finished>() && b.has<proto::Finished>(); }));
  CHECK(a.last<proto::Finished>()->outcome == proto::Finished::Outcome::succeeded);
}

TEST_CASE("an agent that does not encrypt is told what it lacks") {
  ServedAgents served(settings(true));
  CHECK_THAT(refusal(place(served, false)),
             Catch::Matchers::Contains("it encrypts its connections; add --rdzv-tls"));
  CHECK(comes(served, "it does not encrypt: it needs --rdzv-tls (rdzvd: --tls)"));
}

TEST_CASE("of what a client that does not encrypt sends, only its first message is kept") {
  const std::string hello = R"({"ddprun":"rendezvous","versions":[1,1],)"
                            R"("nonce":"000102030405060708090a0b0c0d0e0f","run_id":"job"})";
  const std::string no_hello(proto::kFrameBytesBeforeProof, '{');
  const bool is_hello = GENERATE(true, false);
  const std::string first = proto::encode_frame(is_hello ? hello : no_hello);
  const std::string more(16 << 20, '{');
  ServedAgents served(settings(true));
  test::RawClient client(served.server->port());
  const std::size_t before = peak_bytes();
  REQUIRE(client.send(first));
  std::size_t sent = 0;
  while (sent < 256 << 20 && client.send(more)) sent += more.size();
  CHECK(sent >= 64 << 20);
  CHECK(peak_bytes() - before < sent / 2);
}

TEST_CASE("nodes that wait are told of one that does not encrypt") {
  ServedAgents served(settings(true));
  boost::asio::io_context context;
  ServiceAgent waiting(context, "waiting", place(served, true));
  waiting.join(2, 2);
  REQUIRE(run_until(context, [&] { return waiting.has<proto::Waiting>(); }));
  ServiceAgent other(context, "other", place(served, false));
  other.join(2, 2);
  REQUIRE(run_until(context, [&] { return waiting.has<proto::Remark>(); }));
  CHECK(waiting.last<proto::Remark>()->text ==
        "a connection from 127.0.0.1 was refused: it does not encrypt its connections; it needs "
        "--rdzv-tls");
}

TEST_CASE("an agent that encrypts does not talk to a service that does not") {
  ServedAgents served(settings(false));
  CHECK_THAT(refusal(place(served, true)),
             Catch::Matchers::Contains("it does not encrypt its connections"));
  CHECK(comes(served, "it encrypts (--rdzv-tls), and this rendezvous does not"));
}

TEST_CASE("over an encrypted connection another secret is named") {
  ServedAgents served(settings(true));
  CHECK_THAT(refusal(place(served, true, "a guess of a secret")),
             Catch::Matchers::Contains("it has another secret than this node; all need the same "
                                       "file (--rdzv-secret-file)"));
  CHECK(comes(served, "not from a peer that has the secret"));
}

TEST_CASE("the agent in the service's own process encrypts nothing, and the others do") {
  ServedAgents served(settings(true));
  boost::asio::io_context context;
  test::ServerHere here(*served.server, 0);
  rdzv::ServicePlace own = place(served, true);
  own.port = 1;  // no service is there
  own.own = &here;
  ServiceAgent host(context, "host", own);
  ServiceAgent other(context, "other", place(served, true));
  host.join(2, 2);
  other.join(2, 2);
  CHECK(run_until(context, [&] { return host.has<Round>() && other.has<Round>(); }));
}
