// How a store's server starts, and what it reports where the system refuses that.
#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <utility>

#include "base/unique_handle.hpp"
#include "rendezvous/store/store_server.hpp"
#include "tests/integration/rendezvous/served.hpp"
#include "tests/support/no_threads.hpp"

using namespace ddprun::rdzv;
using namespace ddprun::test;

TEST_CASE("an unused server can be made and destroyed at once") {
  for (int i = 0; i < 200; ++i) auto server = StoreServer::start(listener()).value();
  SUCCEED();
}

TEST_CASE("a server for which no thread can be started is an error and frees its port") {
  const ddprun::test::NoThreads none;
  StoreListener made = listener();
  const std::uint16_t port = made.port;
  CHECK(StoreServer::start(std::move(made)).error().value() == EAGAIN);
  CHECK(listen_store("127.0.0.1", port).has_value());
}

// As in store_server_test.cpp: the release build runs this file too.
#ifndef __SANITIZE_ADDRESS__
TEST_CASE("a server for which there is no descriptor is an error and frees its port") {
  StoreListener made = listener();
  const std::uint16_t port = made.port;
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit low = before;
  {
    const ddprun::UniqueFd first_free(dup(0));
    low.rlim_cur = static_cast<rlim_t>(first_free.get());
  }
  REQUIRE(setrlimit(RLIMIT_NOFILE, &low) == 0);
  const ddprun::ErrorCode error = StoreServer::start(std::move(made)).error();
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(StoreServer::why_not_started(error) ==
        "Too many open files; raise the limit of open files (ulimit -n)");
  CHECK(listen_store("127.0.0.1", port).has_value());
}
#endif
