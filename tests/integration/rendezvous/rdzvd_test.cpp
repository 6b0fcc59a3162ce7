// rdzvd as a program: its output, its clients, its end.
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "base/endpoint.hpp"
#include "proto/c10d_write.hpp"
#include "rendezvous/client/store_client.hpp"
#include "rendezvous/daemon/listen.hpp"
#include "rendezvous/store/store_server.hpp"
#include "tests/integration/rendezvous/raw_client.hpp"
#include "tests/integration/rendezvous/running_rdzvd.hpp"
#include "tests/support/skip.hpp"

using namespace ddprun;
using namespace ddprun::rdzv;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

ListenOutcome listen_now(const Endpoint& address, Clock::duration limit, Words& said) {
  return listen_at(
      address, Clock::now() + limit, [&](const std::string& line) { said.push_back(line); },
      [](std::chrono::milliseconds) { return true; });
}

}  // namespace

TEST_CASE("rdzvd prints its address, serves, and ends with 0 on a signal") {
  const int signal = GENERATE(SIGTERM, SIGINT, SIGHUP);
  Rdzvd daemon({"--listen=127.0.0.1:0"});
  CHECK(daemon.first_line == "127.0.0.1:" + std::to_string(daemon.port));
  CHECK(daemon.port != 0);
  StoreClient one = daemon.client();
  StoreClient other = daemon.client();
  REQUIRE(one.set("k", "v", soon()));
  CHECK(other.get("k", soon()).value() == "v");
  const ChildResult result = daemon.stop(signal);
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  CHECK(result.out == daemon.first_line + "\n");
  CHECK(one.key_count(soon()).has_error());
}

TEST_CASE("rdzvd listens on IPv6 and on host names") {
  if (!listen_store("::1", 0)) skip("no IPv6 loopback here");
  const std::string host = GENERATE("[::1]", "localhost");
  Rdzvd daemon({"--listen=" + host + ":0"});
  CHECK(is_loopback(daemon.host));
  if (host == "[::1]") CHECK(daemon.first_line == "[::1]:" + std::to_string(daemon.port));
  CHECK(daemon.client().add("n", 1, soon()).value() == 1);
  CHECK(daemon.stop().status == 0);
}

TEST_CASE("rdzvd names the process that has its port") {
  Rdzvd first({"--listen=127.0.0.1:0"});
  const ChildResult second = run(rdzvd_command({"--listen=" + first.first_line}));
  CHECK(second.status == 1);
  CHECK(second.out.empty());
  CHECK(contains(second.err, "cannot listen on " + first.first_line + ": the port is in use by "));
  CHECK(contains(second.err, "pid " + std::to_string(first.child.pid())));
  CHECK(first.stop().status == 0);
}

TEST_CASE("a port is free for the next rdzvd although clients of the last one are still there") {
  Rdzvd first({"--listen=127.0.0.1:0"});
  StoreClient stale = first.client();
  REQUIRE(stale.set("old", "key", soon()));
  REQUIRE(stale.key_count(soon()).value() == 1);
  CHECK(first.stop().status == 0);
  Rdzvd second({"--listen=" + first.first_line});
  CHECK(second.port == first.port);
  CHECK(second.client().key_count(soon()).value() == 0);
  CHECK(second.stop().status == 0);
}

TEST_CASE("rdzvd reports once that every machine can reach it") {
  Rdzvd daemon({"--listen=0.0.0.0:0"});
  const ChildResult result = daemon.stop();
  CHECK(result.status == 0);
  const std::string plain = "the store's protocol has no authentication";
  REQUIRE(contains(result.err, plain));
  CHECK(result.err.find(plain) == result.err.rfind(plain));
  CHECK(
      contains(result.err, "without a secret (--secret-file) it can also join and stop every job"));
}

TEST_CASE("rdzvd logs a client that breaks the protocol and serves on") {
  Rdzvd daemon({"--listen=127.0.0.1:0", "--log-level=info"});
  {
    RawClient browser(daemon.port);
    browser.send("GET / HTTP/1.1\r\n\r\n");
    CHECK(browser.closed());
  }
  CHECK(daemon.client().add("n", 1, soon()).value() == 1);
  CHECK(daemon.child.wait_for([](const std::string&, const std::string& err) {
    return contains(err, "rdzvd: warning: store: closed client 127.0.0.1:");
  }));
  const ChildResult result = daemon.stop();
  CHECK(result.status == 0);
  CHECK(contains(result.err, "stopped by a signal after 2 clients"));
}

TEST_CASE("limits and users of rdzvd's options are in force") {
  Rdzvd daemon({"--listen=127.0.0.1:0", "--max-key-bytes=10", "--allow-uid=any"});
  StoreClient client = daemon.client();
  REQUIRE(client.set("short", "v", soon()));
  client.set("much longer than ten", "v", soon());
  CHECK(client.key_count(soon()).has_error());
  CHECK(daemon.client().key_count(soon()).value() == 1);
  const ChildResult result = daemon.stop();
  CHECK(result.status == 0);
  CHECK(contains(result.err, "a key length of 21 is over the limit of 10"));
}

TEST_CASE("a client that fills the store of rdzvd is closed, and others are served") {
  Rdzvd daemon({"--listen=127.0.0.1:0", "--max-store-bytes=1000000"});
  StoreClient greedy = daemon.client();
  for (int i = 0; i < 20; ++i)
    static_cast<void>(greedy.set("k" + std::to_string(i), std::string(100'000, 'x'), soon()));
  CHECK(greedy.key_count(soon()).has_error());
  StoreClient other = daemon.client();
  CHECK(other.set("other", "v", soon()));
  CHECK(other.key_count(soon()).value() == 5);
  const ChildResult result = daemon.stop();
  CHECK(result.status == 0);
  CHECK(contains(result.err, "with this request it fills 5"));
  CHECK(contains(result.err, "one client may fill 500000 (half of --max-store-bytes)"));
}

TEST_CASE("requests that are not whole count for the memory of the store, too") {
  Rdzvd daemon({"--listen=127.0.0.1:0", "--max-store-bytes=10000000"});
  const auto send_part = [](RawClient& client) {
    std::string bytes;
    proto::c10d::RequestWriter writer(bytes);
    writer.validate();
    writer.set("/k", std::string(4'000'000, 'x'));
    bytes.pop_back();
    client.send(bytes);
  };
  RawClient first(daemon.port);
  RawClient second(daemon.port);
  RawClient third(daemon.port);
  send_part(first);
  send_part(second);
  send_part(third);
  CHECK(daemon.child.wait_for([](const std::string&, const std::string& err) {
    return contains(err, "the store is full: with this request it has 10");
  }));
  CHECK(daemon.client().add("n", 1, soon()).value() == 1);
  CHECK(daemon.stop().status == 0);
}

TEST_CASE("rdzvd without a store serves the rendezvous alone") {
  Rdzvd daemon({"--listen=127.0.0.1:0", "--no-store"});
  {
    RawClient client(daemon.port);
    std::string bytes;
    proto::c10d::RequestWriter(bytes).validate();
    client.send(bytes);
    CHECK(client.closed());
  }
  CHECK(run(rdzvd_command({"--status", "--endpoint=" + daemon.first_line})).status == 0);
  const ChildResult result = daemon.stop();
  CHECK(result.status == 0);
  CHECK(contains(result.err, "it asks for PyTorch's store, which is not served here (--no-store)"));
  CHECK(contains(run(rdzvd_command({"--help"})).out, "--no-store"));
}

TEST_CASE("a host that never resolves is an error at the deadline, with one warning before") {
  const ChildResult result =
      run(rdzvd_command({"--listen=no-such-host.invalid:0", "--listen-timeout=0.6"}));
  CHECK(result.status == 1);
  const std::string reason = "cannot look up no-such-host.invalid: ";
  REQUIRE(contains(result.err, reason));
  CHECK(contains(result.err, "gave up at the deadline (--listen-timeout)"));
}

TEST_CASE("a signal ends rdzvd also while it waits for its host") {
  Child child(rdzvd_command({"--listen=192.0.2.77:0", "--listen-timeout=60"}));
  REQUIRE(child.wait_for(
      [](const std::string&, const std::string& err) { return contains(err, "trying again"); }));
  child.signal(SIGTERM);
  const ChildResult result = child.wait();
  CHECK(result.status == 0);
  CHECK(result.out.empty());
}

TEST_CASE("reasons to wait are printed once for each change") {
  Words said;
  const ListenOutcome outcome = listen_now({"192.0.2.77", 0}, 3s, said);
  CHECK_FALSE(outcome.listener.has_value());
  CHECK(contains(outcome.failure, "gave up"));
  REQUIRE(said.size() == 1);
  CHECK(contains(said[0], "cannot listen on 192.0.2.77:0"));
}

TEST_CASE("a closed stdout is no reason not to serve") {
  Child child(
      {"/bin/sh", "-c", "exec \"$0\" --listen=127.0.0.1:0 --log-level=info >&-", program("rdzvd")});
  REQUIRE(child.wait_for([](const std::string&, const std::string& err) {
    return contains(err, "listens on 127.0.0.1:");
  }));
  child.signal(SIGTERM);
  CHECK(child.wait().status == 0);
}

TEST_CASE("wrong use of rdzvd ends with 2 and a remedy") {
  const ChildResult result = run(rdzvd_command({"--port=1"}));
  CHECK(result.status == 2);
  CHECK(contains(result.err, "rdzvd --help"));
  CHECK(result.out.empty());
}
