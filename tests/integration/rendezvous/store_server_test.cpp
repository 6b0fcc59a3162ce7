// A store over loopback and what clients may do to it: nothing that hurts another client.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_handle.hpp"
#include "rendezvous/client/store_client.hpp"
#include "rendezvous/store/store_server.hpp"
#include "tests/integration/rendezvous/raw_client.hpp"
#include "tests/integration/rendezvous/served.hpp"
#include "tests/support/c10d_requests.hpp"
#include "tests/support/hex.hpp"

using namespace ddprun::rdzv;
using namespace ddprun::test;
using namespace std::chrono_literals;
using ddprun::UniqueFd;
using ddprun::test::TorchRequestWriter;

namespace {

std::size_t open_descriptors() {
  std::size_t count = 0;
  for (int fd = 0; fd < 1024; ++fd) count += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("a listener reports its real port and refuses an invalid address") {
  const StoreListener made = listener();
  CHECK(made.port != 0);
  CHECK(made.addr == "127.0.0.1");
  CHECK((fcntl(made.fd.get(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK_FALSE(listen_store("not-an-address", 0).has_value());
  const auto taken = listen_store("127.0.0.1", made.port);
  REQUIRE_FALSE(taken.has_value());
  CHECK(taken.error().value() == EADDRINUSE);
}

TEST_CASE("a store is reached by IPv6 where the machine has it") {
  auto made = listen_store("::1", 0);
  if (!made) {
    WARN("no IPv6 loopback here: " << made.error().message());
    return;
  }
  auto server = StoreServer::start(std::move(*made)).value();
  auto client = StoreClient::connect("::1", server.port(), soon());
  REQUIRE(client.has_value());
  CHECK(client->add("n", 1, soon()).value() == 1);
}

TEST_CASE("eight clients in eight threads meet at counters and keys") {
  Served served;
  std::atomic<int> met{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 8; ++rank) {
    threads.emplace_back([&, rank] {
      auto client = StoreClient::connect(served.server.addr(), served.server.port(), soon());
      if (!client) return;
      bool good = true;
      for (int round = 0; round < 20; ++round) {
        const std::string prefix = "round" + std::to_string(round) + "/";
        good =
            good && client->set(prefix + std::to_string(rank), std::to_string(rank * round), soon())
                        .has_value();
        std::vector<std::string> keys;
        for (int other = 0; other < 8; ++other) keys.push_back(prefix + std::to_string(other));
        good = good && client->wait(keys, soon()).has_value();
        for (int other = 0; other < 8 && good; ++other) {
          const auto value = client->get(keys[static_cast<std::size_t>(other)], soon());
          good = value && *value == std::to_string(other * round);
        }
        good = good && client->add(prefix + "count", 1, soon()).has_value();
      }
      if (good) ++met;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(met == 8);
  StoreClient client = served.client();
  CHECK(client.add("round19/count", 0, soon()).value() == 8);
  CHECK(client.key_count(soon()).value() == 20 * 9);
}

TEST_CASE("one SET releases hundreds of waiters") {
  Served served;
  std::vector<RawClient> waiters;
  for (int i = 0; i < 300; ++i) {
    waiters.emplace_back(served.server.port());
    waiters.back().send(kHello + request([](auto& w) { w.wait(std::vector<std::string>{"/go"}); }));
  }
  // Every one of them waits once its answer to another request is there.
  for (RawClient& waiter : waiters) {
    waiter.send(request([](auto& w) { w.ping(7); }));
    REQUIRE(to_hex(waiter.receive(4)) == "07000000");
  }
  served.client().set("go", "", soon()).value();
  for (RawClient& waiter : waiters) CHECK(waiter.receive(1) == kStop);
}

TEST_CASE("a pipeline of requests in one segment is answered in order") {
  Served served;
  RawClient client(served.server.port());
  std::string bytes = kHello;
  TorchRequestWriter writer(bytes);
  for (int i = 0; i < 5000; ++i) writer.add("/n", 1);
  writer.get("/n");
  REQUIRE(client.send(bytes));
  const std::string replies = client.receive(5000 * 8 + 8 + 4);
  REQUIRE(replies.size() == 5000 * 8 + 8 + 4);
  CHECK(to_hex(replies.substr(0, 16)) == "01000000000000000200000000000000");
  CHECK(replies.substr(replies.size() - 4) == "5000");
}

TEST_CASE("a large value goes through whole") {
  Served served;
  StoreClient client = served.client();
  std::string value(8 << 20, 'x');
  for (std::size_t i = 0; i < value.size(); i += 997) value[i] = static_cast<char>(i);
  REQUIRE(client.set("large", value, soon()));
  CHECK(client.get("large", soon()).value() == value);
  RawClient raw(served.server.port());
  raw.send(kHello + request([](auto& w) {
             w.append("/large", "end");
             w.ping(7);
           }));
  REQUIRE(to_hex(raw.receive(4)) == "07000000");
  CHECK(client.get("large", soon()).value() == value + "end");
}

TEST_CASE("rude clients are closed with one line each, and no other client notices") {
  Served served;
  StoreClient good = served.client();
  RawClient silent(served.server.port());
  RawClient half(served.server.port());
  half.send(kHello + from_hex("0102000000000000002f6b0000800000000000") + "only the beginning");
  const std::vector<std::string> rude = {
      "GET / HTTP/1.1\r\nHost: store\r\n\r\n",
      from_hex("00cff7853c"),
      kHello + from_hex("01") + from_hex("0000000000000080"),
      kHello + from_hex("0102000000000000002f6bffffffffffffff7f"),
      kHello + from_hex("06") + from_hex("40420f0000000000"),
      kHello + from_hex("13"),
      kHello + kHello,
  };
  for (const std::string& bytes : rude) {
    RawClient client(served.server.port());
    client.send(bytes);
    CHECK(client.closed());
    CHECK(good.set("k", "v", soon()));
  }
  // The line is written behind the close, on the server's thread; an answer to a later request says
  // it is done.
  CHECK(good.get("k", soon()).value() == "v");
  CHECK(served.server.counters().refused_clients == rude.size());
  const auto lines = served.warnings();
  REQUIRE(lines.size() == rude.size());
  for (const std::string& line : lines) CHECK(line.find("store: closed client 127.0.0.1:") == 0);
  CHECK(lines[5].find("request code 19") != std::string::npos);
  CHECK(half.silent());
  CHECK(silent.silent());
  // Both may still go on.
  half.send(std::string((8 << 20) - 18, 'x') +
            request([](auto& w) { w.check(std::vector<std::string>{"/k"}); }));
  CHECK(half.receive(1) == kStop);
  silent.send(kHello + request([](auto& w) { w.ping(1); }));
  CHECK(silent.receive(4).size() == 4);
}

TEST_CASE("replies to requests before a violation are still sent") {
  Served served;
  RawClient client(served.server.port());
  client.send(kHello + request([](auto& w) { w.ping(9); }) + from_hex("ff"));
  CHECK(to_hex(client.receive(4)) == "09000000");
  CHECK(client.closed());
}

TEST_CASE("a client that never reads is not read either, and costs no other a thing") {
  StoreSettings settings;
  settings.reply_backlog_bytes_max = 64 * 1024;
  Served served(settings);
  StoreClient good = served.client();
  REQUIRE(good.set("value", std::string(1 << 20, 'v'), soon()));
  REQUIRE(good.add("n", 1, soon()));  // SET has no reply: now it has been applied

  RawClient greedy(served.server.port(), 4096);
  const std::string get = request([](auto& w) { w.get("/value"); });
  greedy.send(kHello);
  // The server stops reading, so the kernel's buffers fill and a send without waiting is refused at
  // last.
  std::string many;
  for (int i = 0; i < 10000; ++i) many += get;
  std::size_t sent = 0;
  std::size_t refused = 0;
  while (refused < 50 && sent < (64u << 20)) {
    const std::size_t offset = sent % get.size();
    const std::size_t taken = greedy.send_some(std::string_view(many).substr(offset));
    sent += taken;
    if (taken > 0) {
      refused = 0;
    } else {
      ++refused;
      // A round trip of another client: the server is alive, and has had time to read on if it
      // wanted to.
      REQUIRE(good.add("n", 1, soon()));
    }
  }
  CHECK(refused == 50);
  // Once it reads, it gets everything that it asked for.
  for (int i = 0; i < 20; ++i) {
    const std::string reply = greedy.receive(8 + (1 << 20));
    REQUIRE(reply.size() == 8 + (1 << 20));
    REQUIRE(to_hex(reply.substr(0, 8)) == "0000100000000000");
    REQUIRE(reply.find_first_not_of('v', 8) == std::string::npos);
  }
  CHECK(good.add("n", 0, soon()));
  greedy.reset();
  CHECK(good.add("n", 0, soon()));
  CHECK(served.warnings().empty());
}

TEST_CASE("a paused client that reads again gets every reply, once and in order") {
  StoreSettings settings;
  settings.reply_backlog_bytes_max = 1000;
  Served served(settings);
  constexpr int kRequests = 3000;
  RawClient client(served.server.port(), 4096);
  std::thread sender([&] {
    std::string bytes = kHello;
    TorchRequestWriter writer(bytes);
    for (int i = 0; i < kRequests; ++i) {
      writer.set("/k", std::string(static_cast<std::size_t>(3990 + i % 20),
                                   static_cast<char>('a' + i % 26)));
      writer.get("/k");
    }
    client.send(bytes);
  });
  int good = 0;
  for (int i = 0; i < kRequests; ++i) {
    const auto size = static_cast<std::size_t>(3990 + i % 20);
    const std::string reply = client.receive(8 + size);
    if (reply.size() == 8 + size &&
        reply.substr(8) == std::string(size, static_cast<char>('a' + i % 26)))
      ++good;
  }
  sender.join();
  CHECK(good == kRequests);
}

TEST_CASE("a client that leaves while it waits is forgotten") {
  Served served;
  StoreClient good = served.client();
  for (int i = 0; i < 50; ++i) {
    RawClient waiter(served.server.port());
    waiter.send(kHello + request([](auto& w) { w.wait(std::vector<std::string>{"/never"}); }));
    waiter.send(request([](auto& w) { w.ping(7); }));
    REQUIRE(waiter.receive(4).size() == 4);
    if (i % 2 == 0) waiter.reset();
  }
  CHECK(good.set("never", "", soon()));
  CHECK(good.get("never", soon()).value().empty());
  CHECK(served.server.counters().refused_clients == 0);
}

TEST_CASE("clients that come and go leave no descriptor behind") {
  const std::size_t before = open_descriptors();
  {
    Served served;
    for (int i = 0; i < 2000; ++i) {
      RawClient client(served.server.port());
      client.send(kHello + request([](auto& w) { w.ping(7); }));
      REQUIRE(client.receive(4).size() == 4);
    }
    StoreClient good = served.client();
    CHECK(good.add("n", 1, soon()).value() == 1);
    CHECK(open_descriptors() < before + 20);
  }
  CHECK(open_descriptors() == before);
}

// UBSan opens a pipe when it meets a class for the first time, so it cannot do without descriptors.
// The release build runs this file too.
#ifndef __SANITIZE_ADDRESS__
TEST_CASE("with no descriptor left, clients wait in the kernel's queue until one is free") {
  Served served;
  StoreClient good = served.client();
  std::vector<RawClient> clients;
  for (int i = 0; i < 3; ++i) clients.emplace_back(served.server.port());
  REQUIRE(good.add("n", 1, soon()));

  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit low = before;
  const UniqueFd first_free(dup(0));
  low.rlim_cur =
      static_cast<rlim_t>(first_free.get()) + 2;  // one more for the client, none for the server
  REQUIRE(setrlimit(RLIMIT_NOFILE, &low) == 0);
  RawClient queued(served.server.port());
  queued.send(kHello + request([](auto& w) { w.ping(8); }));
  CHECK(good.add("n", 1, soon()).value() == 2);
  CHECK(good.add("n", 1, soon()).value() == 3);
  const bool waited = queued.silent();
  clients.clear();
  const std::string echo = queued.receive(4);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(waited);
  CHECK(to_hex(echo) == "08000000");
  REQUIRE(served.warnings().size() == 1);
  CHECK(served.warnings()[0].find("ulimit -n") != std::string::npos);
}
#endif

TEST_CASE("destroying the server closes its clients and frees the port") {
  auto served = std::make_unique<Served>();
  const std::uint16_t port = served->server.port();
  RawClient idle(port);
  RawClient waiting(port);
  waiting.send(kHello + request([](auto& w) { w.wait(std::vector<std::string>{"/k"}); }));
  waiting.send(request([](auto& w) { w.ping(7); }));
  REQUIRE(waiting.receive(4).size() == 4);
  served.reset();
  CHECK(idle.closed());
  CHECK(waiting.closed());
  CHECK(listen_store("127.0.0.1", port).has_value());
}

TEST_CASE("clients that came before the server are served when it starts") {
  StoreListener made = listener();
  RawClient early(made.port);
  early.send(kHello + request([](auto& w) { w.ping(7); }));
  auto server = StoreServer::start(std::move(made)).value();
  CHECK(to_hex(early.receive(4)) == "07000000");
}

TEST_CASE("a last request and the end behind it are both seen when they come together") {
  StoreListener made = listener();
  {
    RawClient hasty(made.port);
    hasty.send(kHello + request([](auto& w) { w.set("/last", "words"); }));
  }
  StoreSettings settings;
  settings.check_uid = false;  // the kernel no longer knows its user
  auto server = StoreServer::start(std::move(made), settings).value();
  auto reader = StoreClient::connect(server.addr(), server.port(), soon());
  REQUIRE(reader.has_value());
  CHECK(reader->get("last", soon()).value() == "words");
  const auto until = soon();
  while (server.counters().open_clients > 1 && Clock::now() < until) {
    REQUIRE(reader->add("n", 1, soon()));
  }
  CHECK(server.counters().open_clients == 1);
}

TEST_CASE("requests that fill the server's read buffer to its last byte are all served") {
  Served served;
  RawClient client(served.server.port());
  client.send(kHello);
  // One read takes 256 KiB; whether a read was full to the byte is up to the kernel, so many sizes.
  const std::string ping = request([](auto& w) { w.ping(7); });
  for (const std::size_t bytes : {256U * 1024U, 512U * 1024U, 1024U * 1024U}) {
    const std::string framing = request([](auto& w) { w.set("/k", ""); });
    const std::string value(bytes - framing.size() - ping.size(), 'v');
    REQUIRE(client.send(request([&](auto& w) { w.set("/k", value); }) + ping));
    REQUIRE(client.receive(4).size() == 4);
  }
}
