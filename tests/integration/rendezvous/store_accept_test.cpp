// Which clients a store accepts and which it refuses: users, limits, silent newcomers.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/store/port_owner.hpp"
#include "tests/integration/rendezvous/other_user.hpp"
#include "tests/integration/rendezvous/raw_client.hpp"
#include "tests/integration/rendezvous/served.hpp"
#include "tests/support/skip.hpp"

using namespace ddprun::rdzv;
using namespace ddprun::test;
using namespace std::chrono_literals;
using ddprun::UniqueFd;

namespace {

std::string ping(std::uint32_t nonce) {
  return request([&](auto& w) { w.ping(nonce); });
}
/// A request of PyTorch 1.13: ADD "init/" 1.
const std::string kOldHello = from_hex("030500000000000000696e69742f0100000000000000");

/// How often the store's thread has been woken: a line of its /proc entry.
std::string wake_ups_of_store() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    std::string line;
    bool store = false;
    while (std::getline(status, line)) {
      store = store || line == "Name:\tstore";
      if (store && line.starts_with("voluntary_ctxt_switches:")) return line;
    }
  }
  return "";
}

}  // namespace

TEST_CASE("a client of another user is closed and named before anything of it is served") {
  need_root();
  Served served;
  StoreClient own = served.client();
  CHECK(received_by_user(kStranger, served.server.port(),
                         kHello + request([](auto& w) { w.set("/k", "stolen"); }) + ping(7))
            .empty());
  CHECK_FALSE(own.check(std::vector<std::string>{"k"}, soon()).value());
  CHECK(served.server.counters().refused_clients == 1);
  REQUIRE(served.warnings().size() == 1);
  CHECK(served.warnings()[0].find("it belongs to uid 65534, and this store to uid 0: "
                                  "--store-allow-uid=65534 lets it in") != std::string::npos);
}

TEST_CASE("a client of another user is served if that is allowed or not checked") {
  need_root();
  StoreSettings settings;
  const bool allowed = GENERATE(true, false);
  if (allowed) {
    settings.allowed_uids = {12345, kStranger};
  } else {
    settings.check_uid = false;
  }
  Served served(settings);
  CHECK(to_hex(received_by_user(kStranger, served.server.port(), kHello + ping(7))) == "07000000");
  CHECK(served.warnings().empty());
}

TEST_CASE("another user is known behind an address of the other family too") {
  need_root();
  StoreListener made = [] {
    auto both = listen_store("::", 0);
    if (!both) skip("no IPv6 here: " + both.error().message());
    return std::move(*both);
  }();
  StoreSettings settings;
  settings.on_warning = [](const std::string&) {};
  auto server = StoreServer::start(std::move(made), settings).value();
  CHECK(received_by_user(kStranger, server.port(), kHello + ping(7)).empty());
  CHECK(server.counters().refused_clients == 1);
  CHECK(to_hex(received_by_user(0, server.port(), kHello + ping(7))) == "07000000");
}

TEST_CASE("a client that has left before its user was seen is not served") {
  StoreListener made = listener();
  {
    // The server does not run yet, so it can't look before this client has gone.
    RawClient hasty(made.port);
    hasty.send(kHello + request([](auto& w) { w.set("/k", "v"); }));
  }
  std::vector<std::string> lines;
  StoreSettings settings;
  settings.on_warning = [&](const std::string& line) { lines.push_back(line); };
  {
    auto server = StoreServer::start(std::move(made), settings).value();
    auto client = StoreClient::connect(server.addr(), server.port(), soon());
    REQUIRE(client.has_value());
    CHECK(client->key_count(soon()).value() == 0);
    CHECK(server.counters().refused_clients == 1);
    CHECK(server.counters().clients == 2);
  }
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("had closed its end") != std::string::npos);
}

TEST_CASE("a client that never sends a hello is closed at the deadline") {
  StoreSettings settings;
  settings.handshake_timeout = 30ms;
  Served served(settings);
  StoreClient good = served.client();
  RawClient silent(served.server.port());
  RawClient half(served.server.port());
  half.send(kHello.substr(0, 3));
  CHECK(silent.closed());
  CHECK(half.closed());
  CHECK(good.key_count(soon()).value() == 0);
  CHECK(served.server.counters().refused_clients == 2);
  for (const std::string& line : served.warnings())
    CHECK(line.find("it sent no whole request within 0.03 s") != std::string::npos);
  // After its hello a client may be silent for any time.
  std::this_thread::sleep_for(400ms);
  CHECK(good.key_count(soon()).value() == 0);
}

TEST_CASE("the silent second connection of PyTorch 1.13 is left alone") {
  StoreSettings settings;
  settings.handshake_timeout = 30ms;
  Served served(settings);
  RawClient first(served.server.port());
  RawClient second(served.server.port());
  RawClient half(served.server.port());
  first.send(kOldHello);
  CHECK(to_hex(first.receive(8)) == "0100000000000000");
  half.send(kOldHello.substr(0, 5));
  CHECK(half.closed());  // older than none of the others, so they were looked at as well
  CHECK(second.silent());
  second.send(kOldHello);
  CHECK(to_hex(second.receive(8)) == "0200000000000000");
}

TEST_CASE("no more clients than the limit are served at a time, and the others wait") {
  StoreSettings settings;
  settings.connections_max = 2;
  Served served(settings);
  auto first = std::make_unique<RawClient>(served.server.port());
  RawClient second(served.server.port());
  first->send(kHello + ping(1));
  REQUIRE(first->receive(4).size() == 4);
  second.send(kHello + ping(2));
  REQUIRE(second.receive(4).size() == 4);
  CHECK(served.warnings().empty());
  RawClient third(served.server.port());
  third.send(kHello + ping(3));
  second.send(ping(4));
  REQUIRE(second.receive(4).size() == 4);
  second.send(ping(5));
  REQUIRE(second.receive(4).size() == 4);
  CHECK(third.silent());
  REQUIRE(served.warnings().size() == 1);
  CHECK(served.warnings()[0].find("limit of clients") != std::string::npos);
  first.reset();
  CHECK(to_hex(third.receive(4)) == "03000000");
}

TEST_CASE("a flood of bad clients is a few lines and a number") {
  std::vector<std::string> lines;
  StoreSettings settings;
  settings.on_warning = [&](const std::string& line) { lines.push_back(line); };
  {
    auto server = StoreServer::start(listener(), settings).value();
    for (int i = 0; i < 200; ++i) {
      RawClient client(server.port());
      client.send("GET / HTTP/1.1\r\n");
      REQUIRE(client.closed());
    }
    RawClient newer(server.port());
    newer.send(kHello + from_hex("13"));
    REQUIRE(newer.closed());
  }
  REQUIRE(lines.size() >= 12);
  CHECK(lines.size() < 40);  // a slow machine may see a second period
  CHECK(lines.back().find("more like it: store: closed client") != std::string::npos);
  std::size_t named = 0;
  for (const std::string& line : lines)
    named += line.find("request code 19") != std::string::npos ? 1 : 0;
  CHECK(named == 1);
}

TEST_CASE("a worker with a PyTorch that is too new is counted apart") {
  Served served;
  RawClient newer(served.server.port());
  newer.send(kHello + from_hex("2a"));
  CHECK(newer.closed());
  RawClient scanner(served.server.port());
  scanner.send("GET / HTTP/1.1\r\n\r\n");
  CHECK(scanner.closed());
  StoreClient good = served.client();
  CHECK(good.key_count(soon()).value() == 0);
  CHECK(served.server.counters().newer_clients == 1);
  CHECK(served.server.counters().clients == 3);
  CHECK(served.server.counters().open_clients == 1);
  CHECK(served.server.counters().refused_clients == 2);
}

TEST_CASE("with reset_on_close clients are reset and the port is free at once") {
  StoreSettings settings;
  settings.reset_on_close = GENERATE(true, false);
  auto served = std::make_unique<Served>(settings);
  const std::uint16_t port = served->server.port();
  const UniqueFd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in addr{};
  addr.sin_family = AF_INET;
  addr.sin_port = htons(port);
  addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(client.get(), reinterpret_cast<sockaddr*>(&addr), sizeof addr) == 0);
  const std::string hello = kHello + ping(1);
  REQUIRE(send(client.get(), hello.data(), hello.size(), 0) == 10);
  char reply[4];
  REQUIRE(recv(client.get(), reply, sizeof reply, MSG_WAITALL) == 4);
  served.reset();
  const ssize_t length = recv(client.get(), reply, sizeof reply, 0);
  if (settings.reset_on_close) {
    CHECK(length == -1);
    CHECK(errno == ECONNRESET);
  } else {
    CHECK(length == 0);
  }
  CHECK(listen_store("127.0.0.1", port).has_value());
}

TEST_CASE("a reply of a terabyte to a fast reader leaves the others their turns") {
  Served served;
  StoreClient good = served.client();
  REQUIRE(good.set("large", std::string(8 << 20, 'x'), soon()));
  REQUIRE(good.key_count(soon()).value() == 1);
  RawClient greedy(served.server.port());
  greedy.send(kHello +
              request([](auto& w) { w.multi_get(std::vector<std::string>(131072, "/large")); }));
  std::atomic<bool> enough{false};
  std::thread reader([&] {
    while (!enough) greedy.receive(1 << 20);
  });
  for (int i = 0; i < 100; ++i) CHECK(good.add("n", 1, soon()).value() == i + 1);
  enough = true;
  reader.join();
}

TEST_CASE("a million keys in one WAIT is refused before they come") {
  Served served;
  RawClient client(served.server.port());
  client.send(kHello + from_hex("06") + from_hex("40420f0000000000"));
  CHECK(client.closed());
  CHECK(served.client().key_count(soon()).value() == 0);  // the line comes behind the close
  REQUIRE(served.warnings().size() == 1);
  CHECK(served.warnings()[0].find("a list length of 1000000 is over the limit of 131072") !=
        std::string::npos);
}

TEST_CASE("the owner of a port that is taken is named") {
  const StoreListener taken = listener();
  const auto owner = port_owner(taken.port);
  REQUIRE(owner.has_value());
  CHECK(owner->find("test_store_server") != std::string::npos);
  CHECK(owner->find(", pid " + std::to_string(getpid())) != std::string::npos);
}

TEST_CASE("an idle store is not woken") {
  Served served;
  StoreClient idle = served.client();
  REQUIRE(idle.key_count(soon()).value() == 0);
  std::this_thread::sleep_for(50ms);
  const std::string before = wake_ups_of_store();
  REQUIRE_FALSE(before.empty());
  std::this_thread::sleep_for(1s);
  CHECK(wake_ups_of_store() == before);
}
