// Clients that come to a store from another port, clients that are the rendezvous's, and ports of a
// range.
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/rendezvous/elsewhere.hpp"
#include "tests/integration/rendezvous/other_user.hpp"
#include "tests/integration/rendezvous/raw_client.hpp"
#include "tests/integration/rendezvous/served.hpp"
#include "tests/support/child.hpp"

using namespace ddprun::rdzv;
using namespace ddprun::test;
using namespace std::chrono_literals;
using ddprun::UniqueFd;

namespace {

/// A hello and a PING that has a reply of four bytes.
std::string greeting() {
  return kHello + request([](auto& w) { w.ping(7); });
}

StoreServer server_without_port(StoreSettings settings = {}) {
  return StoreServer::start({{}, "node1", 4711}, std::move(settings)).value();
}

/// What begins as an agent's connection does.
const std::string kControl("\0\0\0\x02{}", 6);

/// Connections that a store gave away.
class GivenAway {
 public:
  [[nodiscard]] std::function<void(UniqueFd)> taker() {
    return [this](UniqueFd fd) {
      const std::lock_guard lock(mutex_);
      fds_.push_back(std::move(fd));
    };
  }
  [[nodiscard]] std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return fds_.size();
  }
  /// Waits for the first one, and reads what is there of it.
  [[nodiscard]] std::string first_bytes() const {
    if (!eventually([&] { return count() > 0; })) return "";
    const std::lock_guard lock(mutex_);
    char bytes[64];
    const ssize_t length = recv(fds_[0].get(), bytes, sizeof bytes, MSG_DONTWAIT);
    return {bytes, static_cast<std::size_t>(std::max<ssize_t>(length, 0))};
  }

 private:
  mutable std::mutex mutex_;
  std::vector<UniqueFd> fds_;
};

}  // namespace

TEST_CASE("a client that a store adopts is served like one that came to its own port") {
  Served served;
  const Elsewhere elsewhere;
  RawClient adopted(elsewhere.port());
  adopted.send(greeting() + request([](auto& w) { w.set("/k", "v"); }));
  served.server.adopt(elsewhere.accept());
  REQUIRE(to_hex(adopted.receive(4)) == "07000000");
  StoreClient own = served.client();
  CHECK(own.get("k", soon()).value() == "v");
  adopted.send(request([](auto& w) { w.wait(std::vector<std::string>{"/later"}); }));
  REQUIRE(own.set("later", "", soon()));
  CHECK(adopted.receive(1) == kStop);
  CHECK(served.server.counters().open_clients == 2);
}

TEST_CASE("a server without a port of its own serves those that it adopts") {
  StoreServer server = server_without_port();
  CHECK(server.addr() == "node1");
  CHECK(server.port() == 4711);
  const Elsewhere elsewhere;
  std::thread adopter([&] {
    for (int i = 0; i < 2; ++i) server.adopt(elsewhere.accept());
  });
  auto one = StoreClient::connect("127.0.0.1", elsewhere.port(), soon());
  auto other = StoreClient::connect("127.0.0.1", elsewhere.port(), soon());
  adopter.join();
  REQUIRE(one.has_value());
  REQUIRE(other.has_value());
  REQUIRE(one->set("k", "v", soon()));
  CHECK(other->get("k", soon()).value() == "v");
}

TEST_CASE("clients are adopted from many threads at once") {
  StoreServer server = server_without_port();
  const Elsewhere elsewhere;
  std::deque<RawClient> clients;
  for (int i = 0; i < 200; ++i) clients.emplace_back(elsewhere.port()).send(greeting());
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) server.adopt(elsewhere.accept());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (RawClient& client : clients) CHECK(client.receive(4).size() == 4);
  CHECK(server.counters().clients == 200);
}

TEST_CASE("a client that is adopted over the limit is closed with one line") {
  StoreSettings settings;
  settings.connections_max = 1;
  Served served(settings);
  const Elsewhere elsewhere;
  std::optional<RawClient> first(std::in_place, elsewhere.port());
  first->send(greeting());
  served.server.adopt(elsewhere.accept());
  REQUIRE(first->receive(4).size() == 4);
  RawClient second(elsewhere.port());
  second.send(greeting());
  served.server.adopt(elsewhere.accept());
  CHECK(second.closed());
  first->send(greeting().substr(kHello.size()));
  CHECK(first->receive(4).size() == 4);
  REQUIRE(eventually([&] { return served.warnings().size() == 1; }));
  CHECK(served.warnings()[0].find("the store's limit of clients is reached") != std::string::npos);
  first.reset();
  REQUIRE(eventually([&] { return served.server.counters().open_clients == 0; }));
  RawClient third(elsewhere.port());
  third.send(greeting());
  served.server.adopt(elsewhere.accept());
  CHECK(third.receive(4).size() == 4);
}

TEST_CASE("a server may end while it has clients to adopt") {
  const Elsewhere elsewhere;
  StoreSettings settings;
  settings.reset_on_close = GENERATE(true, false);
  for (int i = 0; i < 100; ++i) {
    RawClient client(elsewhere.port());
    client.send(kHello);
    {
      StoreServer server = server_without_port(settings);
      server.adopt(elsewhere.accept());
    }
    CHECK(client.closed());
  }
}

TEST_CASE("an adopted client that says nothing is closed at the deadline") {
  StoreSettings settings;
  settings.handshake_timeout = 30ms;
  Served served(settings);
  const Elsewhere elsewhere;
  RawClient silent(elsewhere.port());
  served.server.adopt(elsewhere.accept());
  CHECK(silent.closed());
  CHECK(served.server.counters().refused_clients == 1);
}

TEST_CASE("an adopted client of another user is not served") {
  need_root();
  Served served;
  const Elsewhere elsewhere;
  std::thread adopter([&] { served.server.adopt(elsewhere.accept()); });
  const std::string reply = received_by_user(kStranger, elsewhere.port(), greeting());
  adopter.join();
  CHECK(reply.empty());
  CHECK(served.server.counters().refused_clients == 1);
}

TEST_CASE("a store gives away a client that begins like an agent, with nothing read") {
  GivenAway given;
  StoreSettings settings;
  settings.check_uid = GENERATE(true, false);
  settings.on_control_client = given.taker();
  Served served(settings);
  RawClient agent(served.server.port());
  SECTION("at once") { agent.send(kControl); }
  SECTION("after a part of its first bytes") {
    agent.send(kControl.substr(0, 3));
    CHECK(served.client().key_count(soon()).value() == 0);
    agent.send(kControl.substr(3));
  }
  CHECK(given.first_bytes() == kControl);
  // The store goes on without it, in the same places.
  RawClient client(served.server.port());
  client.send(greeting());
  CHECK(client.receive(4).size() == 4);
  CHECK(given.count() == 1);
  CHECK(eventually([&] { return served.server.counters().open_clients <= 2; }));
  CHECK(served.server.counters().refused_clients == 0);
  CHECK(served.warnings().empty());
}

TEST_CASE("a store keeps what only looks like an agent for its first bytes") {
  GivenAway given;
  StoreSettings settings;
  settings.on_control_client = given.taker();
  Served served(settings);
  RawClient old(served.server.port());
  // SET of PyTorch 1.13 with a key of 256 bytes: zeros at the place of the brace.
  const std::string key(256, 'k');
  const std::string set =
      from_hex("00") + from_hex("0001000000000000") + key + from_hex("0100000000000000") + "v";
  SECTION("whole") { old.send(set); }
  SECTION("in pieces") {
    old.send(set.substr(0, 2));
    CHECK(served.client().key_count(soon()).has_value());
    old.send(set.substr(2));
  }
  StoreClient client = served.client();
  CHECK(eventually([&] { return client.key_count(soon()).value() == 1; }));
  {
    RawClient leaver(served.server.port());
    leaver.send(kControl.substr(0, 2));
  }
  CHECK(eventually([&] { return served.server.counters().open_clients == 2; }));
  CHECK(given.count() == 0);
}

TEST_CASE("a free port of a range is found, and a range without one is an error") {
  const auto in_use = [](const auto& made) {
    return made.has_error() && made.error().value() == EADDRINUSE;
  };
  const StoreListener taken = listener();
  CHECK(in_use(listen_store("127.0.0.1", taken.port, taken.port)));
  const auto found = listen_store("127.0.0.1", 20'000, 29'999);
  REQUIRE(found.has_value());
  CHECK(found->port >= 20'000);
  CHECK(found->port <= 29'999);
  RawClient client(found->port);
  // All ports of a small range are found, none twice.
  const auto first = static_cast<std::uint16_t>(found->port - 1);
  const auto last = static_cast<std::uint16_t>(found->port + 1);
  std::vector<StoreListener> all;
  for (int i = 0; i < 3; ++i) {
    auto made = listen_store("127.0.0.1", first, last);
    if (made) all.push_back(std::move(*made));
  }
  CHECK(all.size() <= 2);  // other programs may have some
  for (const StoreListener& made : all) CHECK(made.port != found->port);
  CHECK(in_use(listen_store("127.0.0.1", first, last)));
  for (const auto& [low, high] : {std::pair{0, 10}, std::pair{30'001, 30'000}}) {
    const auto wrong = listen_store("127.0.0.1", static_cast<std::uint16_t>(low),
                                    static_cast<std::uint16_t>(high));
    CHECK(wrong.has_error());
    CHECK(wrong.error().value() == EINVAL);
  }
  CHECK(listen_store("192.0.2.77", 20'000, 29'999).error().value() == EADDRNOTAVAIL);
}
