// Clients that come before their store, or between two of them.
#include "rendezvous/store/store_handover.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <thread>

#include "tests/integration/rendezvous/elsewhere.hpp"
#include "tests/integration/rendezvous/raw_client.hpp"
#include "tests/integration/rendezvous/served.hpp"
#include "tests/support/child.hpp"

using namespace ddprun::rdzv;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

/// A hand-over with a port of its own before it.
struct HandoverWithPort {
  explicit HandoverWithPort(StoreHandover::Settings settings = {})
      : handover(std::in_place, settings) {}

  /// A client that has connected, and has said that it wants an answer of four bytes.
  RawClient& client() {
    clients.emplace_back(elsewhere.port()).send(kHello + request([](auto& w) { w.ping(7); }));
    handover->offer(elsewhere.accept());
    return clients.back();
  }

  Elsewhere elsewhere;
  std::deque<RawClient> clients;
  std::optional<StoreHandover> handover;
};

bool answered(RawClient& client) { return client.receive(4).size() == 4; }

StoreServer store_behind_door(bool check_uid = true) {
  StoreSettings settings;
  settings.check_uid = check_uid;
  return StoreServer::start({{}, "127.0.0.1", 1}, settings).value();
}

}  // namespace

TEST_CASE("clients that come before their store are served when it opens, and later ones at once") {
  HandoverWithPort port;
  RawClient& early = port.client();
  CHECK(port.handover->parked() == 1);
  CHECK(early.silent());
  StoreServer store = store_behind_door();
  port.handover->open(store);
  CHECK(port.handover->parked() == 0);
  CHECK(answered(early));
  CHECK(answered(port.client()));
  CHECK(store.counters().clients == 2);
  port.handover->close();
}

TEST_CASE("a client between two stores is for the second") {
  HandoverWithPort port;
  std::optional<StoreServer> store(store_behind_door());
  port.handover->open(*store);
  RawClient& old = port.client();
  CHECK(answered(old));
  port.handover->close();
  store.reset();
  CHECK(old.closed());
  RawClient& early = port.client();
  CHECK(early.silent());
  store.emplace(store_behind_door());
  port.handover->open(*store);
  CHECK(answered(early));
  port.handover->close();
}

TEST_CASE("the first client of each time without a store is reported") {
  std::atomic<int> wanted{0};
  StoreHandover::Settings settings;
  settings.on_first_client = [&] { ++wanted; };
  HandoverWithPort port(settings);
  CHECK(wanted == 0);
  port.client();
  CHECK(wanted == 1);
  port.client();
  CHECK(wanted == 1);
  StoreServer store = store_behind_door();
  port.handover->open(store);
  port.client();
  CHECK(wanted == 1);
  port.handover->close();
  CHECK(wanted == 1);
  port.client();
  CHECK(wanted == 2);
}

TEST_CASE("the store may be opened from within the report of its first client") {
  StoreServer store = store_behind_door();
  StoreHandover* handover = nullptr;
  StoreHandover::Settings settings;
  settings.on_first_client = [&] { handover->open(store); };
  HandoverWithPort port(settings);
  handover = &*port.handover;
  CHECK(answered(port.client()));
  port.handover->close();
}

TEST_CASE("with too many clients that wait, the oldest is reset") {
  StoreHandover::Settings settings;
  settings.parked_max = 2;
  HandoverWithPort port(settings);
  RawClient& oldest = port.client();
  RawClient& second = port.client();
  RawClient& third = port.client();
  CHECK(oldest.closed());
  CHECK(port.handover->parked() == 2);
  StoreServer store = store_behind_door();
  port.handover->open(store);
  CHECK(answered(second));
  CHECK(answered(third));
  port.handover->close();
}

TEST_CASE("a client that has waited too long is reset, and no later store gets it") {
  StoreHandover::Settings settings;
  settings.parked_for = 0ms;
  HandoverWithPort port(settings);
  RawClient& first = port.client();
  RawClient& second = port.client();
  CHECK(first.closed());
  CHECK(second.silent());
  StoreServer store = store_behind_door();
  port.handover->open(store);
  CHECK(second.closed());
  CHECK(answered(port.client()));
  CHECK(store.counters().clients == 1);
  port.handover->close();
}

TEST_CASE("of clients that leave before their store opens, only those with requests are served") {
  HandoverWithPort port;
  {
    const RawClient silent(port.elsewhere.port());
    port.handover->offer(port.elsewhere.accept());
  }
  {
    RawClient hasty(port.elsewhere.port());
    hasty.send(kHello + request([](auto& w) { w.set("/last", "words"); }));
    port.handover->offer(port.elsewhere.accept());
  }
  StoreServer store = store_behind_door(false);  // the kernel no longer knows its user
  port.handover->open(store);
  RawClient reader(port.elsewhere.port());
  reader.send(kHello + request([](auto& w) {
                w.wait(std::vector<std::string>{"/last"});
                w.ping(7);
              }));
  port.handover->offer(port.elsewhere.accept());
  CHECK(to_hex(reader.receive(5)) == "0007000000");
  CHECK(store.counters().clients == 2);
  port.handover->close();
}

TEST_CASE("the end of the handover resets those that wait") {
  HandoverWithPort port;
  RawClient& client = port.client();
  port.handover.reset();
  CHECK(client.closed());
}

TEST_CASE("stores that open and close while clients come lose none of them") {
  HandoverWithPort port;
  constexpr int kClients = 300;
  for (int i = 0; i < kClients; ++i) {
    port.clients.emplace_back(port.elsewhere.port()).send(kHello + request([](auto& w) {
                                                            w.ping(7);
                                                          }));
  }
  std::thread offering([&] {
    for (int i = 0; i < kClients; ++i) port.handover->offer(port.elsewhere.accept());
  });
  for (int round = 0; round < 20; ++round) {
    StoreServer store = store_behind_door();
    port.handover->open(store);
    std::this_thread::yield();
    port.handover->close();
  }
  StoreServer store = store_behind_door();
  port.handover->open(store);
  offering.join();
  // Each has its answer, or knows that its store has ended.
  for (RawClient& client : port.clients) CHECK((answered(client) || client.closed()));
  port.handover->close();
}
