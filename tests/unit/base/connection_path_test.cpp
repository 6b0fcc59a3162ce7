// Both ends of a connection, as its two programs see them.
#include "base/socket.hpp"

#include <sys/socket.h>

#include <catch2/catch.hpp>

#include "base/unique_handle.hpp"

using namespace ddprun;

TEST_CASE("what is no connection over TCP has no path") {
  CHECK(connection_path(-1, ConnectionSide::connected).empty());
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  const UniqueFd one(ends[0]);
  const UniqueFd other(ends[1]);
  CHECK(connection_path(one.get(), ConnectionSide::accepted).empty());
}
