// An agent that is given several services, of which one has the jobs: standbys, hosts that do not
// answer, and a service that may not answer any more.
#include <atomic>
#include <optional>
#include <utility>

#include <boost/asio/post.hpp>

#include "tests/integration/rendezvous/elsewhere.hpp"
#include "tests/integration/rendezvous/served_agents.hpp"
#include "tests/integration/rendezvous/service_agent.hpp"

using namespace ddprun;
using namespace ddprun::test;
using Catch::Matchers::Contains;
using proto::Refused;
using proto::Round;
using rdzv::ServiceServerSettings;

namespace {

std::uint16_t unused_port() {
  const auto listener = rdzv::listen_store("127.0.0.1", 0);
  REQUIRE(listener.has_value());
  return listener->port;
}

ServiceServerSettings standby(const std::string& place, const std::string& secret = "") {
  ServiceServerSettings settings;
  settings.secret = secret;
  settings.standby = [place] {
    return Refused{Refused::Why::elsewhere, "this is a standby of " + place, place};
  };
  return settings;
}

const std::string kClusterSecret = "the secret of the cluster";

ServiceServerSettings with_secret(const std::string& secret) {
  ServiceServerSettings settings;
  settings.secret = secret;
  return settings;
}

Endpoint at(std::uint16_t port) { return {"127.0.0.1", port}; }

/// Keeps nothing, and may answer until it may not.
class FakeJournal : public rdzv::Journal {
 public:
  std::atomic<bool> answers{true};
  rdzv::JournalPast take_past() override { return {}; }
  void append(const rdzv::JobRecord&) override {}
  void replace(const rdzv::JobSnapshot&) override {}
  void forget(const std::string&) override {}
  std::vector<std::string> commit() override { return {}; }
  [[nodiscard]] bool is_durable() const override { return true; }
  [[nodiscard]] bool may_answer() override { return answers; }
};

/// Gives the answer that the test has put there.
class FakeFinder : public rdzv::ServiceFinder {
 public:
  explicit FakeFinder(boost::asio::io_context& context) : context_(context) {}
  void find(Done done) override {
    boost::asio::post(context_, [done = std::move(done), found = answer] { done(found); });
  }
  rdzv::FoundService answer;

 private:
  boost::asio::io_context& context_;
};

}  // namespace

TEST_CASE("an agent that is told where the service is asks again when its connection ends") {
  boost::asio::io_context context;
  FakeFinder finder(context);
  finder.answer.reason = "no agent leads yet";
  std::optional<ServedAgents> served(std::in_place);
  rdzv::ServicePlace place = served->place();
  place.port = unused_port();
  place.finder = &finder;
  ServiceAgent agent(context, "agent", place);
  REQUIRE(run_until(context, [&] { return !agent.lines.empty(); }));
  CHECK(agent.lines.at(0).find("does not answer (no agent leads yet)") != std::string::npos);
  finder.answer = {at(served->server->port())};
  REQUIRE(run_until(context, [&] { return served->server->agents() == 1; }));
  const ServedAgents other;
  finder.answer = {at(other.server->port())};
  served.reset();
  CHECK(run_until(context, [&] { return other.server->agents() == 1; }));
}

TEST_CASE("an agent gives up at once where no attempt can find the service") {
  boost::asio::io_context context;
  FakeFinder finder(context);
  finder.answer = {{}, "etcd asks for a user", true};
  rdzv::ServicePlace place;
  place.run_id = "job";
  place.finder = &finder;
  ServiceAgent agent(context, "agent", place);
  REQUIRE(run_until(context, [&] { return agent.has<proto::Finished>(); }));
  CHECK(agent.last<proto::Finished>()->reason.find("etcd asks for a user") != std::string::npos);
}

TEST_CASE("an agent asks again when the service at its job's old place is another job's") {
  boost::asio::io_context context;
  FakeFinder finder(context);
  const bool has_other_secret = GENERATE(false, true);
  const ServedAgents strange(with_secret(has_other_secret ? "of another job" : ""));
  finder.answer = {at(strange.server->port())};
  const ServedAgents served(with_secret(kClusterSecret));
  rdzv::ServicePlace place = served.place(kClusterSecret);
  place.needs_proof = true;
  place.port = unused_port();
  place.finder = &finder;
  ServiceAgent agent(context, "agent", place);
  agent.join(1, 1);
  REQUIRE(run_until(context, [&] { return !agent.lines.empty() || agent.has<proto::Finished>(); }));
  CHECK_FALSE(agent.has<proto::Finished>());
  CHECK_THAT(agent.lines.at(0), Contains(has_other_secret ? "another secret" : "no secret"));
  finder.answer = {at(served.server->port())};
  CHECK(run_until(context, [&] { return agent.has<Round>(); }));
}

TEST_CASE("one of several hosts that does not suit this node does not keep it from the others") {
  ServedAgents served(with_secret(kClusterSecret));
  const ServedAgents without;
  const ServedAgents with_other(with_secret("the secret of last year"));
  boost::asio::io_context context;
  rdzv::ServicePlace hosts = served.place(kClusterSecret);
  hosts.needs_proof = true;
  hosts.port = without.server->port();
  hosts.more_hosts = {at(with_other.server->port()), at(served.server->port())};
  ServiceAgent agent(context, "agent", hosts);
  agent.join(1, 2);
  REQUIRE(run_until(context, [&] { return agent.has<proto::Waiting>(); }));
  // It comes back, too, past those that refuse it.
  const std::uint16_t port = served.server->port();
  served.server.reset();
  REQUIRE(run_until(context, [&] { return !agent.lines.empty(); }));
  const ServedAgents next(with_secret(kClusterSecret), port);
  CHECK(run_until(context, [&] { return next.server->agents() == 1; }));
}

TEST_CASE("an agent is refused once all of several hosts have refused it") {
  const ServedAgents one;
  const ServedAgents two;
  boost::asio::io_context context;
  rdzv::ServicePlace hosts = one.place(kClusterSecret);
  hosts.needs_proof = true;
  hosts.more_hosts = {at(two.server->port())};
  ServiceAgent agent(context, "agent", hosts);
  REQUIRE(run_until(context, [&] { return agent.has<proto::Finished>(); }));
  CHECK_THAT(agent.last<proto::Finished>()->reason, Contains("it has no secret"));
}

TEST_CASE("an agent that a standby sends to a host which does not suit it learns why") {
  const ServedAgents leader;
  const std::string place = to_string(at(leader.server->port()));
  const ServedAgents other(standby(place, kClusterSecret));
  boost::asio::io_context context;
  rdzv::ServicePlace hosts = other.place(kClusterSecret);
  hosts.needs_proof = true;
  hosts.more_hosts = {at(leader.server->port())};
  ServiceAgent agent(context, "agent", hosts);
  REQUIRE(run_until(context, [&] { return !agent.lines.empty() || agent.has<proto::Finished>(); }));
  CHECK_FALSE(agent.has<proto::Finished>());
  CHECK_THAT(agent.lines.at(0), Contains(place + ": it has no secret"));
}

TEST_CASE("an agent finds the one that has the jobs behind standbys and hosts that do not answer") {
  ServedAgents served;
  const std::string place = to_string(at(served.server->port()));
  ServedAgents first(standby(""));
  ServedAgents second(standby(place));
  const test::Elsewhere silent;  // takes connections, and never answers
  boost::asio::io_context context;
  rdzv::ServicePlace hosts = served.place();
  hosts.port = unused_port();
  hosts.more_hosts = {{"no-such-host.invalid", 1}, at(silent.port()), at(first.server->port()),
                      at(second.server->port()),   at(unused_port()), at(served.server->port())};
  ServiceAgent agent(context, "agent", hosts);
  agent.join(1, 1);
  CHECK(run_until(context, [&] { return agent.has<Round>(); }));
}

TEST_CASE("an agent is led by a standby to a place of its own list only") {
  ServedAgents served;
  ServedAgents one(standby(to_string(at(served.server->port()))));
  ServedAgents two(standby(to_string(at(served.server->port()))));
  boost::asio::io_context context;
  rdzv::ServicePlace hosts = served.place();
  hosts.port = one.server->port();
  hosts.more_hosts = {at(two.server->port())};
  ServiceAgent agent(context, "agent", hosts);
  agent.join(1, 1);
  CHECK(run_until(context, [&] { return !agent.lines.empty(); }));
  CHECK(agent.lines.at(0).find("this is a standby of") != std::string::npos);
  CHECK(served.server->agents() == 0);
}

TEST_CASE("a standby names the leader to nobody that lacks the secret") {
  ServedAgents served(standby("10.0.0.9:1", "the secret of the cluster"));
  boost::asio::io_context context;
  std::vector<proto::ServiceMessage> heard;
  std::string failure;
  rdzv::ServicePlace place = served.place("another secret");
  place.follows_standby = false;
  rdzv::ServiceConnection connection(
      context, place,
      {[] {}, [&](bool, const std::string& reason) { failure = reason; },
       [&](proto::ServiceMessage message) { heard.push_back(std::move(message)); }});
  connection.connect();
  REQUIRE(run_until(context, [&] { return !failure.empty() || !heard.empty(); }));
  for (const auto& message : heard)
    CHECK(std::get<Refused>(message).why == Refused::Why::wrong_secret);
}

TEST_CASE("that all of several hosts refuse connections proves nothing") {
  boost::asio::io_context context;
  rdzv::ServicePlace place;
  place.host = "127.0.0.1";
  place.port = unused_port();
  place.run_id = "job";
  if (GENERATE(true, false)) place.more_hosts = {at(unused_port()), at(unused_port())};
  std::optional<bool> refused;
  rdzv::ServiceConnection connection(
      context, place,
      {[] {}, [&](bool is_refused, const std::string&) { refused = is_refused; },
       [](proto::ServiceMessage) {}});
  connection.connect();
  REQUIRE(run_until(context, [&] { return refused.has_value(); }));
  CHECK(*refused == place.more_hosts.empty());
}

TEST_CASE("a service that may not answer any more resets its connections and keeps silent") {
  const auto journal = std::make_shared<FakeJournal>();
  ServiceServerSettings settings;
  settings.journal = journal;
  ServedAgents old(settings);
  boost::asio::io_context context;
  rdzv::ServicePlace hosts = old.place();
  std::optional<ServedAgents> next;
  const std::uint16_t port = unused_port();
  hosts.more_hosts = {at(port)};
  ServiceAgent agent(context, "agent", hosts, 1s);
  agent.join(1, 2);
  REQUIRE(run_until(context, [&] { return agent.has<proto::Waiting>(); }));
  journal->answers = false;
  // Its next keep-alive is not answered, nor is what it says on a new connection.
  REQUIRE(run_until(context, [&] { return old.server->agents() == 0 || !agent.lines.empty(); }));
  agent.heard.clear();
  agent.link->send(proto::Leave{});
  CHECK_FALSE(run_until(
      context, [&] { return agent.has<Round>(); }, 2s));
  for (const auto& message : agent.heard)  // its own answer to its own leave
    CHECK(std::holds_alternative<proto::Finished>(message));
}
