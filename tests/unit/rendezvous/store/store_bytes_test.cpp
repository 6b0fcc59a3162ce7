// The memory that clients may fill: all of them together, and one of them.
#include <catch2/catch.hpp>
#include <random>
#include <string>

#include "tests/unit/rendezvous/store/asking.hpp"

using namespace ddprun;
using namespace ddprun::test;
using Why = proto::c10d::Refusal::Why;

namespace {

constexpr std::uint64_t kLimit = 1024 * 1024;

rdzv::StoreSettings limited(std::uint64_t bytes = kLimit) {
  rdzv::StoreSettings settings;
  settings.store_bytes_max = bytes;
  return settings;
}

std::string kilobytes(std::size_t count) { return std::string(count * 1024, 'x'); }

/// Sets keys until it is closed.
void fill(Client& client, const std::string& prefix) {
  for (int i = 0; client.closed() == Why::none && i < 10'000; ++i)
    client.set(prefix + std::to_string(i), kilobytes(10));
}

}  // namespace

TEST_CASE("a client that fills its share is closed, and the others go on") {
  PureStore store(limited());
  Client greedy(store, 0);
  Client other(store, 1);
  fill(greedy, "/g");
  CHECK(greedy.closed() == Why::share_full);
  CHECK(store.core().bytes() <= kLimit / 2);
  CHECK(store.core().bytes() > kLimit / 2 - 32 * 1024);
  CHECK(other.set("/k", "v").empty());
  CHECK(other.get("/k") == vec("v"));
  CHECK(other.get("/g0") == vec(kilobytes(10)));
}

TEST_CASE("all clients together fill a store no further than its limit") {
  PureStore store(limited());
  for (rdzv::ConnectionId id = 0; id < 20; ++id) {
    Client client(store, id);
    fill(client, "/" + std::to_string(id) + "/");
    CHECK(store.core().bytes() <= kLimit);
  }
  CHECK(store.core().bytes() > kLimit - 32 * 1024);
}

TEST_CASE("a full store is read, waited for and emptied") {
  PureStore store(limited());
  for (rdzv::ConnectionId id = 0; id < 3; ++id) {
    Client client(store, id);
    fill(client, "/" + std::to_string(id) + "/");
    store.disconnect(id);
  }
  Client late(store, 7);
  CHECK(late.set("/late", kilobytes(64)).empty());
  CHECK(late.closed() == Why::store_full);
  Client reader(store, 8);
  CHECK(reader.wait({"/0/0", "/0/1"}) == kStop);
  CHECK(reader.check({"/0/0"}) == kStop);
  CHECK(reader.get("/0/0") == vec(kilobytes(10)));
  CHECK(reader.set("/0/0", kilobytes(10)).empty());  // no more than was there
  CHECK(reader.closed() == Why::none);
  for (int i = 0; i < 20; ++i) reader.erase("/0/" + std::to_string(i));
  CHECK(reader.set("/late", kilobytes(64)).empty());
  CHECK(reader.get("/late") == vec(kilobytes(64)));
}

TEST_CASE("what another client deletes no longer counts for the one that set it") {
  PureStore store(limited());
  Client producer(store, 0);
  Client consumer(store, 1);
  for (int i = 0; i < 1'000; ++i) {
    producer.set("/job", kilobytes(10));
    producer.push("/queue", kilobytes(10));
    producer.add("/count", 1);
    consumer.erase("/job");
    consumer.pop("/queue");
    consumer.wait({"/job"});
    producer.set("/job", "1");
    consumer.received();
    consumer.erase("/job");
  }
  CHECK(producer.closed() == Why::none);
  CHECK(consumer.closed() == Why::none);
}

TEST_CASE("each way to fill a store is refused in time, and a refused request changes nothing") {
  const auto reaches_its_end = [](auto&& step) {
    PureStore store(limited());
    Client client(store, 0);
    for (int i = 0; client.closed() == Why::none; ++i) {
      REQUIRE(i < 100'000);
      step(client, i);
      CHECK(store.core().bytes() <= kLimit);
    }
    return client.closed();
  };
  CHECK(reaches_its_end([](Client& client, int) { client.append("/a", kilobytes(5)); }) ==
        Why::share_full);
  CHECK(reaches_its_end([](Client& client, int) { client.push("/q", kilobytes(5)); }) ==
        Why::share_full);
  CHECK(reaches_its_end([](Client& client, int i) { client.push("/q" + std::to_string(i), ""); }) ==
        Why::share_full);
  CHECK(reaches_its_end([](Client& client, int i) { client.add("/n" + std::to_string(i), 1); }) ==
        Why::share_full);
  CHECK(reaches_its_end([](Client& client, int i) {
          client.compare_set("/c" + std::to_string(i), "", kilobytes(5));
        }) == Why::share_full);
  CHECK(reaches_its_end([](Client& client, int i) {
          client.multi_set({{"/m" + std::to_string(i), kilobytes(5)},
                            {"/o" + std::to_string(i), kilobytes(200)}});
        }) == Why::share_full);
  CHECK(reaches_its_end([](Client& client, int i) {
          client.wait({"/w" + std::to_string(i) + std::string(2'000, 'w')});
        }) == Why::share_full);
}

TEST_CASE("the memory of a store is counted to the last byte in any history") {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    PureStore store(limited(300'000));
    std::minstd_rand random(seed);
    const auto name = [&] { return "/" + std::to_string(random() % 12); };
    std::vector<Client> clients;
    for (rdzv::ConnectionId id = 0; id < 4; ++id) clients.emplace_back(store, id);
    for (int step = 0; step < 1'500; ++step) {
      const auto id = static_cast<rdzv::ConnectionId>(random() % 4);
      Client& client = clients[id];
      const std::string value(random() % 4 == 0 ? random() % 60'000 : random() % 50, 'v');
      switch (random() % 11) {
        case 0:
        case 1:
          client.set(name(), value);
          break;
        case 2:
          client.append(name(), value);
          break;
        case 3:
          client.erase(name());
          break;
        case 4:
          client.push(name(), value);
          break;
        case 5:
          client.pop(name());
          break;
        case 6:
          client.wait({name(), name()});
          break;
        case 7:
          client.compare_set(name(), "", value);
          break;
        case 8:
          client.barrier("/b" + std::to_string(random() % 3), 2);
          break;
        case 9:
          client.cancel_wait();
          break;
        default:
          client.multi_set({{name(), value}, {name(), "1"}});
      }
      REQUIRE(store.core().bytes() <= 300'000);
      if (client.closed() == Why::none && random() % 50 != 0) continue;
      store.disconnect(id);
      clients[id] = Client(store, id);
    }
    for (rdzv::ConnectionId id = 0; id < 4; ++id) store.disconnect(id);
    Client last(store, 9);
    for (int i = 0; i < 12; ++i) {
      const std::string key = "/" + std::to_string(i);
      while (last.pop(key) != number(0)) {
      }
      last.erase(key);
      last.erase("/b" + std::to_string(i));
    }
    CHECK(store.core().bytes() == 0);
    CHECK(store.core().name_count() == 0);
  }
}
