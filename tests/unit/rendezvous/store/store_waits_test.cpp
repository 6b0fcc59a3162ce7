// Waiting: WAIT, CANCEL_WAIT, BARRIER, and what releases which client.
#include <catch2/catch.hpp>
#include <string>

#include "tests/unit/rendezvous/store/asking.hpp"

using namespace ddprun::test;
using Why = ddprun::proto::c10d::Refusal::Why;

TEST_CASE("WAIT on existing keys, or on none, is answered at once") {
  PureStore store;
  Client client(store, 0);
  client.set("/a", "");
  CHECK(client.wait({"/a", "/a"}) == kStop);
  CHECK(client.wait({}) == kStop);
}

TEST_CASE("a waiter is released once, when the last of its keys appears") {
  PureStore store;
  Client waiter(store, 0);
  Client other(store, 1);
  other.set("/a", "1");
  CHECK(waiter.wait({"/a", "/b", "/c", "/b"}).empty());
  other.set("/b", "2");
  CHECK(waiter.received().empty());
  other.set("/c", "3");
  CHECK(waiter.received() == kStop);
  other.set("/c", "4");
  CHECK(waiter.received().empty());
  CHECK(store.core().wait_count() == 0);
}

TEST_CASE("a waiter is released by whatever creates its key (Q2)") {
  PureStore store;
  Client waiter(store, 0);
  Client other(store, 1);
  const auto released_by = [&](auto&& create) {
    CHECK(waiter.wait({"/k"}).empty());
    create();
    CHECK(waiter.received() == kStop);
    other.erase("/k");
    other.pop("/k");
  };
  released_by([&] { other.set("/k", ""); });
  released_by([&] { other.add("/k", 0); });
  released_by([&] { other.append("/k", "x"); });
  released_by([&] { other.multi_set({{"/k", "x"}}); });
  released_by([&] { other.compare_set("/k", "", "x"); });
  released_by([&] { other.push("/k", "x"); });
  released_by([&] { other.barrier("/k", 1); });
}

TEST_CASE("a COMPARE_SET that stores nothing wakes no client (Q3)") {
  PureStore store;
  Client waiter(store, 0);
  Client other(store, 1);
  waiter.wait({"/k"});
  CHECK(other.compare_set("/k", "expected", "x") == vec("expected"));
  CHECK(waiter.received().empty());
}

TEST_CASE("a key that appears and is deleted again has arrived") {
  PureStore store;
  Client waiter(store, 0);
  Client other(store, 1);
  waiter.wait({"/a", "/b"});
  other.set("/a", "");
  other.erase("/a");
  other.set("/b", "");
  CHECK(waiter.received() == kStop);
}

TEST_CASE("requests behind an open WAIT are served and two open waits are two") {
  PureStore store;
  Client waiter(store, 0);
  Client other(store, 1);
  CHECK(waiter.wait({"/a"}).empty());
  CHECK(waiter.get("/x") == vec(""));
  CHECK(waiter.wait({"/a"}).empty());
  other.set("/a", "");
  CHECK(waiter.received() == kStop + kStop);
}

TEST_CASE("a client can end its own wait, behind the reply to the request that does it") {
  PureStore store;
  Client client(store, 0);
  client.wait({"/n"});
  CHECK(client.add("/n", 5) == number(5) + kStop);
}

TEST_CASE("CANCEL_WAIT is always answered, and nothing follows it") {
  PureStore store;
  Client waiter(store, 0);
  Client other(store, 1);
  CHECK(waiter.cancel_wait() == kCanceled);
  waiter.wait({"/a", "/b"});
  waiter.wait({"/b"});
  CHECK(waiter.cancel_wait() == kCanceled);
  other.multi_set({{"/a", ""}, {"/b", ""}});
  CHECK(waiter.received().empty());
}

TEST_CASE("a wait that ended just before it is cancelled gives both bytes") {
  PureStore store;
  Client waiter(store, 0);
  Client other(store, 1);
  waiter.wait({"/a"});
  other.set("/a", "");
  CHECK(waiter.cancel_wait() == kStop + kCanceled);
}

TEST_CASE("a client that leaves while it waits is forgotten") {
  PureStore store;
  Client waiter(store, 0);
  Client other(store, 1);
  waiter.wait({"/a", "/b"});
  store.disconnect(0);
  CHECK(store.core().wait_count() == 0);
  Client next(store, 0);  // the number is used again
  other.multi_set({{"/a", ""}, {"/b", ""}});
  CHECK(next.received().empty());
}

TEST_CASE("a push wakes one waiter, the one that has waited longest") {
  PureStore store;
  Client first(store, 0);
  Client second(store, 1);
  Client other(store, 2);
  first.wait({"/q"});
  second.wait({"/q"});
  other.push("/q", "x");
  CHECK(first.received() == kStop);
  CHECK(second.received().empty());
  other.push("/q", "y");
  CHECK(second.received() == kStop);
}

TEST_CASE("a waiter that a push woke is no longer in the queue's list (Q7)") {
  PureStore store;
  Client first(store, 0);
  Client second(store, 1);
  Client other(store, 2);
  first.wait({"/q"});
  other.push("/q", "x");
  CHECK(first.received() == kStop);
  first.pop("/q");
  first.wait({"/elsewhere"});
  second.wait({"/q"});
  other.push("/q", "y");
  CHECK(first.received().empty());
  CHECK(second.received() == kStop);
}

TEST_CASE("a waiter that needs more than the queue does not use up the push") {
  PureStore store;
  Client first(store, 0);
  Client second(store, 1);
  Client other(store, 2);
  first.wait({"/q", "/q", "/k"});
  second.wait({"/q"});
  other.push("/q", "x");
  CHECK(first.received().empty());
  CHECK(second.received() == kStop);
  other.set("/k", "");
  CHECK(first.received() == kStop);
}

TEST_CASE("a non-empty queue counts as a key for WAIT (Q8)") {
  PureStore store;
  Client waiter(store, 0);
  Client other(store, 1);
  other.push("/q", "x");
  CHECK(waiter.wait({"/q"}) == kStop);
  CHECK(waiter.wait({"/q", "/k"}).empty());
  other.set("/k", "");
  CHECK(waiter.received() == kStop);
}

TEST_CASE("a barrier lets all go when the last one arrives") {
  PureStore store;
  Client first(store, 0);
  Client second(store, 1);
  Client third(store, 2);
  CHECK(first.barrier("/b", 3).empty());
  CHECK(second.barrier("/b", 3).empty());
  CHECK(third.check({"/b"}) == kStop);  // the key is there from the first arrival on
  CHECK(third.barrier("/b", 3) == kStop);
  CHECK(first.received() == kStop);
  CHECK(second.received() == kStop);
  CHECK(third.get("/b") == vec("3"));
  CHECK(first.barrier("/b", 3) == kStop);  // the count stays behind
  CHECK(first.barrier("/alone", 1) == kStop);
  CHECK(first.barrier("/nobody", 0) == kStop);
}

TEST_CASE("a client that gives up at a barrier still counts") {
  PureStore store;
  Client first(store, 0);
  Client second(store, 1);
  first.barrier("/b", 2);
  CHECK(first.cancel_wait() == kCanceled);
  CHECK(second.barrier("/b", 2) == kStop);
  CHECK(first.received().empty());
}

TEST_CASE("a WAIT on a barrier's key that came before the first arrival ends with the barrier") {
  PureStore store;
  Client waiter(store, 0);
  Client first(store, 1);
  Client second(store, 2);
  waiter.wait({"/b"});
  first.barrier("/b", 2);
  CHECK(waiter.received().empty());
  second.barrier("/b", 2);
  CHECK(waiter.received() == kStop);
}

TEST_CASE("SET on a barrier's key lets its waiters go, and ADD counts as an arrival") {
  PureStore store;
  Client first(store, 0);
  Client other(store, 1);
  first.barrier("/b", 5);
  other.set("/b", "0");
  CHECK(first.received() == kStop);
  CHECK(other.add("/c", 1) == number(1));
  CHECK(first.barrier("/c", 2) == kStop);
}

TEST_CASE("a barrier on what is not a number closes the connection") {
  PureStore store;
  Client client(store, 0);
  client.set("/b", "text");
  CHECK(client.barrier("/b", 2).empty());
  CHECK(client.closed() == Why::not_a_number);
  Client other(store, 1);
  CHECK(other.get("/b") == vec("text"));
}

TEST_CASE("one connection cannot wait for more keys than the limit") {
  ddprun::rdzv::StoreSettings settings;
  settings.waited_keys_max = 3;
  PureStore store(settings);
  Client client(store, 0);
  CHECK(client.wait({"/a", "/b"}).empty());
  CHECK(client.wait({"/c"}).empty());
  client.cancel_wait();
  CHECK(client.wait({"/a", "/b", "/c"}).empty());
  CHECK(client.barrier("/d", 2).empty());
  CHECK(client.closed() == Why::too_many_waits);
  CHECK(store.core().wait_count() == 0);
  CHECK(store.core().name_count() == 0);
}
