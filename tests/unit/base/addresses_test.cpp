#include "base/endpoint.hpp"

#include <netinet/in.h>

#include <catch2/catch.hpp>

namespace ddprun {
namespace {

std::string first_of(const Result<Addresses>& found) {
  return found ? numeric_host(**found) : found.error().message();
}

TEST_CASE("a numeric address is its own, in either family") {
  for (const std::string host : {"127.0.0.1", "10.1.2.3", "::1"}) {
    CHECK(is_numeric_address(host));
    CHECK(first_of(numeric_addresses(host, 80)) == host);
    CHECK(first_of(look_up_addresses(host, 80)) == host);
  }
}

TEST_CASE("a name is no numeric address, and nothing is asked about it") {
  for (const std::string host : {"localhost", "node1", "", "10.1.2", "1::2::3", "[::1]"}) {
    INFO(host);
    CHECK_FALSE(is_numeric_address(host));
  }
  const auto none = numeric_addresses("localhost", 80);
  REQUIRE_FALSE(none.has_value());
  CHECK(none.error() == ErrorCode(EAI_NONAME, resolver_category()));
  CHECK(none.error().message() == gai_strerror(EAI_NONAME));
}

TEST_CASE("a port comes back with the addresses") {
  const auto found = numeric_addresses("127.0.0.1", 4711);
  REQUIRE(found.has_value());
  CHECK(ntohs(reinterpret_cast<const sockaddr_in*>((*found)->ai_addr)->sin_port) == 4711);
}

TEST_CASE("an address of another family has no numeric form") {
  sockaddr packet_addr{};
  packet_addr.sa_family = AF_PACKET;
  CHECK(numeric_host(&packet_addr, sizeof packet_addr).empty());
}

}  // namespace
}  // namespace ddprun
