// Connections to the rendezvous service that are no agent's: they harm no job and keep no node out.
#include <deque>
#include <string>

#include "proto/frame.hpp"
#include "rendezvous/service/service_server.hpp"
#include "rendezvous/store/warning_limiter.hpp"
#include "tests/integration/rendezvous/elsewhere.hpp"
#include "tests/integration/rendezvous/flood.hpp"
#include "tests/integration/rendezvous/other_user.hpp"
#include "tests/integration/rendezvous/raw_client.hpp"
#include "tests/integration/rendezvous/served_agents.hpp"
#include "tests/integration/rendezvous/service_agent.hpp"
#include "tests/support/child.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using proto::Round;
using rdzv::ServiceServer;
using rdzv::ServiceServerSettings;
using test::run_until;
using test::ServedAgents;
using test::ServiceAgent;

TEST_CASE(
    "connections that say nothing do not keep an agent out, however long they may be silent") {
  ServiceServerSettings settings;
  settings.silent_within = 10min;
  settings.newcomers.places = 2;
  ServedAgents served(settings);
  std::deque<test::RawClient> silent;
  for (int i = 0; i < 7; ++i) silent.emplace_back(served.server->port());
  silent[1].send(std::string("\0\0", 2));
  boost::asio::io_context context;
  ServiceAgent a(context, "a", served.place());
  a.join(1, 1);
  CHECK(run_until(context, [&] { return a.has<Round>(); }));
  // Where there is room they may stay.
  CHECK(silent.back().silent());
}

TEST_CASE("a flood of connections that do not go on keeps no agent out") {
  const std::string first = GENERATE(std::string(), std::string("\0\0\1\0{", 5));
  const char* from = GENERATE("127.0.0.1", "127.0.0.2");
  INFO(first.size() << " bytes each from " << from);
  ServedAgents served;
  test::Flood flood(served.server->port(), from, first);
  REQUIRE(test::eventually([&] { return flood.replaced() > 0; }));
  boost::asio::io_context context;
  ServiceAgent a(context, "a", served.place());
  ServiceAgent b(context, "b", served.place());
  a.join(2, 2);
  b.join(2, 2);
  CHECK(run_until(
      context, [&] { return a.has<Round>() && b.has<Round>(); }, 15s));
}

TEST_CASE("a connection that says something and begins no session keeps no place") {
  ServiceServerSettings settings;
  settings.open_within = 300ms;
  ServedAgents served(settings);
  test::RawClient client(served.server->port());
  const std::string hello = R"({"ddprun":"rendezvous","versions":[1,1],)"
                            R"("nonce":"000102030405060708090a0b0c0d0e0f","run_id":"job"})";
  client.send(proto::encode_frame(hello) + proto::encode_frame(R"({"status":{}})"));
  boost::asio::io_context context;
  CHECK(run_until(context, [&] { return served.lines.have("no messages in time"); }));
}

TEST_CASE("an agent that finds PyTorch's store in place of a rendezvous names it") {
  auto listener = rdzv::listen_store("127.0.0.1", 0);
  REQUIRE(listener.has_value());
  const bool is_store = GENERATE(true, false);
  const std::uint16_t port = listener->port;
  std::optional<rdzv::StoreServer> store;
  if (is_store) store.emplace(rdzv::StoreServer::start(std::move(*listener), {}).value());
  boost::asio::io_context context;
  rdzv::ServicePlace place;
  place.host = "127.0.0.1";
  place.port = port;
  place.run_id = "job";
  const ServiceAgent a(context, "a", place);
  REQUIRE(run_until(context, [&] { return !a.lines.empty(); }));
  CHECK(a.lines[0].find(is_store ? "PyTorch's store has the port" : "another program may") !=
        std::string::npos);
}

TEST_CASE("a connection that is adopted over the limit is closed with one line") {
  test::ServerLines lines;
  ServiceServerSettings settings;
  settings.connections_max = 1;
  settings.on_warning = [&](const std::string& line) { lines.add(line); };
  auto started = ServiceServer::start({{}, "127.0.0.1", 1}, settings);
  REQUIRE(started.has_value());
  const test::Elsewhere elsewhere;
  test::RawClient first(elsewhere.port());
  started->adopt(elsewhere.accept());
  test::RawClient second(elsewhere.port());
  started->adopt(elsewhere.accept());
  CHECK(second.closed());
  CHECK(first.silent());
  CHECK(lines.have("the limit of 1 connections is reached"));
}

TEST_CASE("connections of another user do not flood the log") {
  test::need_root();
  ServedAgents served;
  constexpr std::size_t kStrangers = 3 * rdzv::WarningLimiter::kLinesMax;
  for (std::size_t i = 0; i < kStrangers; ++i)
    CHECK(test::received_by_user(test::kStranger, served.server->port(), "bytes").empty());
  served.server.reset();  // its thread has ended
  const std::size_t lines = served.lines.count("it belongs to user 65534");
  CHECK(lines >= rdzv::WarningLimiter::kLinesMax);
  CHECK(lines < kStrangers);
}

TEST_CASE("strangers at the service's port harm no job") {
  ServiceServerSettings settings;
  settings.open_within = 300ms;
  settings.silent_within = 300ms;
  settings.newcomers.places = 3;  // each place is given back
  ServedAgents served(settings);
  boost::asio::io_context context;
  std::deque<test::RawClient> strangers;
  const auto stranger = [&](const std::string& bytes) {
    strangers.emplace_back(served.server->port()).send(bytes);
  };
  const std::string hello = R"({"ddprun":"rendezvous","versions":[1,1],)"
                            R"("nonce":"000102030405060708090a0b0c0d0e0f","run_id":"job"})";
  stranger("GET / HTTP/1.1\r\n\r\n");
  stranger(std::string("\0\0\xff\xff{", 5));  // and nothing more
  stranger(proto::encode_frame("{}"));        // no hello
  stranger(proto::encode_frame(hello) + std::string("\x7f\xff\xff\xff{", 5));
  stranger(proto::encode_frame(hello) + proto::encode_frame("{\"join\":{}}"));
  stranger(proto::encode_frame(hello) + proto::encode_frame("{\"unheard_of\":{}}"));
  for (int i = 0; i < 5; ++i) strangers.emplace_back(served.server->port());
  ServiceAgent a(context, "a", served.place());
  a.join(1, 1);
  REQUIRE(run_until(context, [&] { return a.has<Round>(); }));
  CHECK(run_until(context,
                  [&] { return served.lines.have("its protocol is that of PyTorch's store"); }));
  CHECK(run_until(context, [&] { return served.lines.have("no messages in time"); }));
  CHECK(run_until(context, [&] { return served.lines.have("a length or count over its limit"); }));
  a.link->send(proto::WorkersDone{0});
  CHECK(run_until(context, [&] { return a.has<proto::Finished>(); }));
}
