// What each request means: values, counters, COMPARE_SET, queues. Waiting is in
// store_waits_test.cpp.
#include <catch2/catch.hpp>
#include <limits>
#include <string>

#include "rendezvous/store/decimal.hpp"
#include "tests/unit/rendezvous/store/asking.hpp"

using namespace ddprun::test;
using ddprun::rdzv::parse_decimal;
using Why = ddprun::proto::c10d::Refusal::Why;

TEST_CASE("a value is what was set last") {
  PureStore store;
  Client client(store, 0);
  CHECK(client.set("/k", "one").empty());
  CHECK(client.set("/k", std::string(10000, 'x')).empty());
  CHECK(client.get("/k") == vec(std::string(10000, 'x')));
  client.set("/k", "two");
  CHECK(client.get("/k") == vec("two"));
  CHECK(client.key_count() == number(1));
}

TEST_CASE("GET and MULTI_GET of a missing key give an empty value and keep the connection (Q1)") {
  PureStore store;
  Client client(store, 0);
  CHECK(client.get("/none") == vec(""));
  client.set("/a", "1");
  CHECK(client.multi_get({"/a", "/none", "/a"}) == vec("1") + vec("") + vec("1"));
  CHECK(client.multi_get({}).empty());
  CHECK(client.closed() == Why::none);
  CHECK(client.key_count() == number(1));
}

TEST_CASE("ADD counts from nothing, stores plain decimals and may be zero") {
  PureStore store;
  Client client(store, 0);
  CHECK(client.add("/n", 0) == number(0));
  CHECK(client.get("/n") == vec("0"));
  CHECK(client.add("/n", -12) == number(-12));
  CHECK(client.get("/n") == vec("-12"));
  client.set("/n", "  +40 apples");
  CHECK(client.add("/n", 2) == number(42));
  CHECK(client.get("/n") == vec("42"));
}

TEST_CASE("ADD wraps in two's complement") {
  PureStore store;
  Client client(store, 0);
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  constexpr auto kMin = std::numeric_limits<std::int64_t>::min();
  CHECK(client.add("/n", kMax) == number(kMax));
  CHECK(client.add("/n", 1) == number(kMin));
  CHECK(client.get("/n") == vec("-9223372036854775808"));
  CHECK(client.add("/n", -1) == number(kMax));
}

TEST_CASE("ADD on what is not a number closes the connection and changes nothing") {
  PureStore store;
  Client rude(store, 0);
  Client other(store, 1);
  for (const char* text : {"abc", "", " ", "-", "+-5", "9223372036854775808"}) {
    store.disconnect(0);
    Client client(store, 0);
    other.set("/x", text);
    CHECK(client.add("/x", 1).empty());
    CHECK(client.closed() == Why::not_a_number);
    CHECK(other.get("/x") == vec(text));
  }
}

TEST_CASE("stored decimals are read by the rules of strtoll") {
  CHECK(parse_decimal("7") == 7);
  CHECK(parse_decimal("\t\n\v\f\r -7x") == -7);
  CHECK(parse_decimal("+7") == 7);
  CHECK(parse_decimal("-9223372036854775808") == std::numeric_limits<std::int64_t>::min());
  CHECK(parse_decimal("9223372036854775807") == std::numeric_limits<std::int64_t>::max());
  CHECK_FALSE(parse_decimal("9223372036854775808"));
  CHECK_FALSE(parse_decimal(""));
  CHECK_FALSE(parse_decimal("+"));
  CHECK_FALSE(parse_decimal("+-1"));
  CHECK_FALSE(parse_decimal("--1"));
  CHECK_FALSE(parse_decimal("x1"));
}

TEST_CASE("COMPARE_SET has five cases") {
  PureStore store;
  Client client(store, 0);
  CHECK(client.compare_set("/c", "X", "Y") ==
        vec("X"));  // missing, something expected: nothing is stored
  CHECK(client.key_count() == number(0));
  CHECK(client.compare_set("/c", "", "A") == vec("A"));   // missing, nothing expected
  CHECK(client.compare_set("/c", "A", "B") == vec("B"));  // as expected
  CHECK(client.compare_set("/c", "A", "C") == vec("B"));  // not as expected
  CHECK(client.compare_set("/c", "", "C") ==
        vec("B"));  // an empty expectation is not met by a value
  client.set("/c", "");
  CHECK(client.compare_set("/c", "", "D") == vec("D"));
}

TEST_CASE("APPEND grows a value without touching replies that are on their way") {
  PureStore store;
  Client client(store, 0);
  const std::string large(5000, 'a');
  client.append("/a", large);
  ddprun::rdzv::ReplyBuffer unsent;
  std::vector<ddprun::rdzv::ConnectionId> released;
  ddprun::rdzv::StoreCore core;
  ddprun::proto::c10d::Request request;
  request.key = "/a";
  request.value = large;
  request.code = ddprun::proto::c10d::Code::append;
  core.apply(0, request, unsent, released);
  request.code = ddprun::proto::c10d::Code::get;
  core.apply(0, request, unsent, released);
  request.code = ddprun::proto::c10d::Code::append;
  core.apply(0, request, unsent, released);
  request.code = ddprun::proto::c10d::Code::set;
  request.value = "new";
  core.apply(0, request, unsent, released);
  CHECK(drain(unsent) == vec(large));
  client.append("/a", "b");
  CHECK(client.get("/a") == vec(large + "b"));
}

TEST_CASE("MULTI_SET sets in order, so the last value of a key stays") {
  PureStore store;
  Client client(store, 0);
  CHECK(client.multi_set({{"/a", "1"}, {"/b", "2"}, {"/a", "3"}}).empty());
  CHECK(client.multi_get({"/a", "/b"}) == vec("3") + vec("2"));
}

TEST_CASE("an incomplete MULTI_SET has no effect (Q6)") {
  PureStore store;
  Client client(store, 0);
  std::string bytes;
  ddprun::test::TorchRequestWriter(bytes).multi_set(Client::Pairs{{"/a", "1"}, {"/b", "2"}});
  bytes.pop_back();
  store.send(0, bytes);
  Client other(store, 1);
  CHECK(other.key_count() == number(0));
  store.send(0, "2");
  CHECK(other.key_count() == number(2));
}

TEST_CASE("DELETE_KEY removes keys, never queues") {
  PureStore store;
  Client client(store, 0);
  client.set("/k", "v");
  client.push("/k", "queued");
  CHECK(client.erase("/k") == number(1));
  CHECK(client.erase("/k") == number(0));
  CHECK(client.queue_length("/k") == number(1));
}

TEST_CASE("queues are first in, first out, apart from keys, and uncounted") {
  PureStore store;
  Client client(store, 0);
  const std::string large(6000, 'q');
  client.set("/q", "key");
  CHECK(client.push("/q", "one").empty());
  client.push("/q", large);
  CHECK(client.queue_length("/q") == number(2));
  CHECK(client.key_count() == number(1));
  CHECK(client.pop("/q") == number(2) + vec("one"));
  CHECK(client.pop("/q") == number(1) + vec(large));
  CHECK(client.pop("/q") == number(0));
  CHECK(client.queue_length("/none") == number(0));
  CHECK(client.get("/q") == vec("key"));
}

TEST_CASE("CHECK sees keys and non-empty queues and is ready with no keys (Q9)") {
  PureStore store;
  Client client(store, 0);
  CHECK(client.check({}) == kStop);
  CHECK(client.check({"/q"}) == kMissing);
  client.push("/q", "x");
  CHECK(client.check({"/q"}) == kStop);
  client.set("/k", "");
  CHECK(client.check({"/q", "/k", "/k"}) == kStop);
  CHECK(client.check({"/q", "/k", "/z"}) == kMissing);
  client.pop("/q");
  CHECK(client.check({"/q"}) == kMissing);
}

TEST_CASE("the store holds memory only for names that are in use") {
  PureStore store;
  Client client(store, 0);
  Client other(store, 1);
  client.set("/k", "v");
  client.push("/q", "x");
  client.wait({"/w", "/v"});
  other.wait({"/w"});
  CHECK(store.core().name_count() == 4);
  client.erase("/k");
  client.pop("/q");
  CHECK(store.core().name_count() == 2);
  client.cancel_wait();
  CHECK(store.core().name_count() == 1);
  store.disconnect(1);
  CHECK(store.core().name_count() == 0);
  CHECK(store.core().wait_count() == 0);
}
