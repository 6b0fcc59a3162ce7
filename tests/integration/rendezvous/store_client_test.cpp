// The store client: what it gets from a store, and how it ends where there is none, or a bad one.
#include <fcntl.h>
#include <sys/socket.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "proto/error.hpp"
#include "rendezvous/client/resolve.hpp"
#include "rendezvous/client/store_client.hpp"
#include "rendezvous/store/store_server.hpp"
#include "tests/support/hex.hpp"

using namespace ddprun::rdzv;
using namespace std::chrono_literals;
using ddprun::ErrorCode;
using ddprun::UniqueFd;
using ddprun::proto::Errc;
using ddprun::test::from_hex;

namespace {

using Keys = std::vector<std::string>;

Clock::time_point soon() { return Clock::now() + 20s; }

StoreListener listener() {
  auto made = listen_store("127.0.0.1", 0);
  REQUIRE(made.has_value());
  return std::move(*made);
}

/// Throws where there is no connection: it also runs in threads, where Catch2's checks are not
/// allowed.
StoreClient client_of(const StoreServer& server) {
  return StoreClient::connect(server.addr(), server.port(), soon()).value();
}

/// A server that takes one client, reads what comes first and answers each further piece with the
/// next of `answers`; then it stays silent, or closes.
class FakeServer {
 public:
  FakeServer(std::vector<std::string> answers, bool close_at_end)
      : listener_(listener()), thread_([this, answers, close_at_end] {
          UniqueFd client;
          while (!client) client.reset(accept(listener_.fd.get(), nullptr, nullptr));
          char bytes[4096];
          for (const std::string& answer : answers) {
            if (recv(client.get(), bytes, sizeof bytes, 0) <= 0) return;
            if (answer == "echo") {  // the nonce stands behind VALIDATE and the code of PING
              send(client.get(), bytes + 6, 4, MSG_NOSIGNAL);
            } else {
              send(client.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
            }
          }
          if (close_at_end) return;
          while (recv(client.get(), bytes, sizeof bytes, 0) > 0) {
          }
        }) {}
  ~FakeServer() { thread_.join(); }
  [[nodiscard]] std::uint16_t port() const { return listener_.port; }

 private:
  static StoreListener listener() {
    StoreListener made = ::listener();
    const int flags = fcntl(made.fd.get(), F_GETFL);
    fcntl(made.fd.get(), F_SETFL, flags & ~O_NONBLOCK);
    return made;
  }
  StoreListener listener_;
  std::thread thread_;
};

ErrorCode connect_error(std::uint16_t port, Clock::duration limit, ErrorCode* last = nullptr) {
  return StoreClient::connect("127.0.0.1", port, Clock::now() + limit, last).error();
}

}  // namespace

TEST_CASE("every operation of the client gives the store's answer") {
  auto server = StoreServer::start(listener()).value();
  StoreClient client = client_of(server);
  REQUIRE(client.set("k", "v", soon()));
  CHECK(client.get("k", soon()).value() == "v");
  CHECK(client.add("n", 5, soon()).value() == 5);
  CHECK(client.add("n", -7, soon()).value() == -2);
  CHECK(client.check(Keys{"k", "n"}, soon()).value());
  CHECK_FALSE(client.check(Keys{"k", "none"}, soon()).value());
  CHECK(client.check(Keys{}, soon()).value());
  CHECK(client.wait(Keys{"k"}, soon()));
  CHECK(client.key_count(soon()).value() == 2);
}

TEST_CASE("host names are resolved") {
  auto server = StoreServer::start(listener()).value();
  auto client = StoreClient::connect("localhost", server.port(), soon());
  REQUIRE(client.has_value());
  CHECK(client->add("n", 1, soon()).value() == 1);
}

TEST_CASE("a look-up that is not answered by its deadline is given up") {
  const auto late = resolve("localhost", 80, Clock::now() - 1s);
  REQUIRE_FALSE(late.has_value());
  CHECK(late.error() == Errc::timed_out);
}

TEST_CASE("a host that cannot be has the resolver's own error") {
  const auto none = resolve(std::string(300, 'x'), 80, soon());  // longer than any name
  REQUIRE_FALSE(none.has_value());
  CHECK(none.error() != Errc::timed_out);
  CHECK(std::string(none.error().category().name()) == "getaddrinfo");
  CHECK_FALSE(none.error().message().empty());
}

TEST_CASE("a numeric address needs no resolver and hence no time") {
  for (const char* host : {"127.0.0.1", "::1"}) {
    const auto found = resolve(host, 80, Clock::now() - 1s);
    REQUIRE(found.has_value());
    CHECK(found.value() != nullptr);
  }
}

TEST_CASE("look-ups of several threads do not interfere") {
  std::vector<std::thread> threads;
  std::atomic<int> answered{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const auto deadline = i % 2 == 0 ? soon() : Clock::now();
      const auto found = resolve("localhost", 80, deadline);
      if (found.has_value() || found.error() == Errc::timed_out) ++answered;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(answered == 8);
}

TEST_CASE("a wait that times out is cancelled, and the connection stays usable") {
  auto server = StoreServer::start(listener()).value();
  StoreClient client = client_of(server);
  StoreClient other = client_of(server);
  CHECK(client.wait(Keys{"never"}, Clock::now() + 5ms).error() == Errc::timed_out);
  CHECK(client.get("never", Clock::now()).error() == Errc::timed_out);
  REQUIRE(other.set("never", "came", soon()));
  REQUIRE(other.key_count(soon()).value() == 1);  // SET has no reply: now it has been applied
  CHECK(client.key_count(soon()).value() == 1);
  CHECK(client.get("never", soon()).value() == "came");
}

TEST_CASE("a get waits for its key") {
  auto server = StoreServer::start(listener()).value();
  StoreClient client = client_of(server);
  auto other = std::async(std::launch::async, [&] {
    StoreClient setter = client_of(server);
    setter.add("n", 1, soon()).value();
    setter.set("late", "value", soon()).value();
  });
  CHECK(client.get("late", soon()).value() == "value");
  other.get();
}

TEST_CASE("when the keys come while the wait is being cancelled, the wait has succeeded") {
  // 00 for the WAIT is on its way when the client sends CANCEL_WAIT, which is answered 01.
  FakeServer server({"echo", "", from_hex("0001")}, false);
  auto client = StoreClient::connect("127.0.0.1", server.port(), soon());
  REQUIRE(client.has_value());
  CHECK(client->wait(Keys{"k"}, Clock::now() + 20ms));
  CHECK(client->key_count(Clock::now() + 1ms).error() == Errc::timed_out);
  CHECK(client->key_count(soon()).error() == Errc::peer_closed);  // out of step, hence closed
}

TEST_CASE("requests over the store's limits are not sent") {
  auto server = StoreServer::start(listener()).value();
  StoreClient client = client_of(server);
  const std::string long_key(8192, 'k');
  const std::string long_value((8 << 20) + 1, 'v');
  CHECK(client.set(long_key, "v", soon()).error() == Errc::too_large);
  CHECK(client.set("k", long_value, soon()).error() == Errc::too_large);
  CHECK(client.add(long_key, 1, soon()).error() == Errc::too_large);
  CHECK(client.check(Keys{long_key}, soon()).error() == Errc::too_large);
  CHECK(client.wait(Keys(131073), soon()).error() == Errc::too_large);
  CHECK(client.set(std::string(8191, 'k'), std::string(8 << 20, 'v'), soon()));
  CHECK(client.key_count(soon()).value() == 1);
  CHECK(server.counters().refused_clients == 0);
}

TEST_CASE("a request that the store does not like ends the connection") {
  StoreSettings quiet;
  quiet.on_warning = [](const std::string&) {};
  auto server = StoreServer::start(listener(), quiet).value();
  StoreClient client = client_of(server);
  REQUIRE(client.set("x", "abc", soon()));
  CHECK(client.add("x", 1, soon()).error() == Errc::peer_closed);
  CHECK(client.key_count(soon()).error() == Errc::peer_closed);
  CHECK(client_of(server).get("x", soon()).value() == "abc");
}

TEST_CASE("a client notices that its server has gone") {
  auto server = std::make_unique<StoreServer>(StoreServer::start(listener()).value());
  StoreClient client = client_of(*server);
  StoreClient waiting = client_of(*server);
  ErrorCode ended;
  std::thread waiter([&] { ended = waiting.wait(Keys{"never"}, soon()).error(); });
  REQUIRE(client.add("n", 1, soon()));
  server.reset();
  waiter.join();
  CHECK(ended == Errc::peer_closed);
  // A SET has no reply, so only a later one can fail; nothing may raise SIGPIPE.
  client.set("a", "b", soon());
  client.set("a", "b", soon());
  CHECK(client.key_count(soon()).error() == Errc::peer_closed);
}

TEST_CASE("a client tries again until the server listens") {
  StoreListener made = listener();
  const std::uint16_t port = made.port;
  made.fd.reset();  // refused from now on
  std::atomic<bool> tried{false};
  auto late = std::async(std::launch::async, [&] {
    while (!tried) std::this_thread::yield();
    auto server = StoreServer::start(listen_store("127.0.0.1", port).value()).value();
    client_of(server).get("came", soon()).value();
  });
  CHECK(connect_error(port, 10ms) == Errc::timed_out);
  tried = true;
  auto client = StoreClient::connect("127.0.0.1", port, soon());
  REQUIRE(client.has_value());
  CHECK(client->set("came", "", soon()));
  late.get();
}

TEST_CASE("without a listener the client gives up at its deadline and reports why") {
  StoreListener made = listener();
  made.fd.reset();
  ErrorCode last;
  CHECK(connect_error(made.port, 30ms, &last) == Errc::timed_out);
  CHECK(last.value() == ECONNREFUSED);
  CHECK(StoreClient::connect("no-such-host.invalid", 1, Clock::now() + 30ms, &last).error() ==
        Errc::timed_out);
  CHECK(last.value() != ECONNREFUSED);
}

TEST_CASE("a server that accepts but does not answer PING has the old dialect") {
  FakeServer server({""}, false);
  CHECK(connect_error(server.port(), 20s) == Errc::old_dialect);
}

TEST_CASE("a short deadline is not mistaken for a mute server") {
  FakeServer server({""}, false);
  CHECK(connect_error(server.port(), 50ms) == Errc::timed_out);
}

TEST_CASE("a server that answers PING with something else is not a store") {
  FakeServer server({"HTTP/1.1 400 Bad Request\r\n"}, false);
  CHECK(connect_error(server.port(), 20s) == Errc::malformed);
}

TEST_CASE("replies that cannot be are malformed, and reserve no memory") {
  SECTION("a byte that is no answer to WAIT") {
    FakeServer server({"echo", from_hex("07")}, false);
    auto client = StoreClient::connect("127.0.0.1", server.port(), soon());
    REQUIRE(client.has_value());
    CHECK(client->wait(Keys{"k"}, soon()).error() == Errc::malformed);
  }
  SECTION("a value longer than any can be") {
    FakeServer server({"echo", from_hex("00"), from_hex("ffffffffffffff7f")}, false);
    auto client = StoreClient::connect("127.0.0.1", server.port(), soon());
    REQUIRE(client.has_value());
    CHECK(client->get("k", soon()).error() == Errc::malformed);
  }
  SECTION("a long value that never comes") {
    FakeServer server({"echo", from_hex("00"), from_hex("0000003000000000")}, true);
    auto client = StoreClient::connect("127.0.0.1", server.port(), soon());
    REQUIRE(client.has_value());
    CHECK(client->get("k", soon()).error() == Errc::peer_closed);
  }
  SECTION("half a reply") {
    FakeServer server({"echo", from_hex("0000")}, false);
    auto client = StoreClient::connect("127.0.0.1", server.port(), soon());
    REQUIRE(client.has_value());
    CHECK(client->add("k", 1, Clock::now() + 20ms).error() == Errc::timed_out);
    CHECK(client->add("k", 1, soon()).error() == Errc::peer_closed);
  }
}
