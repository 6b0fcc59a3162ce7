// HOST:PORT as people write it.
#include "base/endpoint.hpp"

#include <catch2/catch.hpp>
#include <string>

using namespace ddprun;
using Catch::Matchers::Contains;

namespace {

Endpoint endpoint(std::string_view text) {
  INFO(text);
  const auto read = parse_endpoint(text);
  REQUIRE(read.has_value());
  return *read;
}

std::string refusal(std::string_view text) {
  INFO(text);
  const auto read = parse_endpoint(text);
  REQUIRE(read.has_error());
  return read.error();
}

}  // namespace

TEST_CASE("an endpoint is a host with or without a port in any family") {
  CHECK(endpoint("node1") == Endpoint{"node1", std::nullopt});
  CHECK(endpoint("node1:29500") == Endpoint{"node1", 29500});
  CHECK(endpoint("10.0.0.1:80") == Endpoint{"10.0.0.1", 80});
  CHECK(endpoint("my_host.example-1.com:0") == Endpoint{"my_host.example-1.com", 0});
  CHECK(endpoint("[::1]") == Endpoint{"::1", std::nullopt});
  CHECK(endpoint("[fe80::1%eth0]:65535") == Endpoint{"fe80::1%eth0", 65535});
  CHECK(endpoint("::1") == Endpoint{"::1", std::nullopt});
  CHECK(endpoint(" node1:1 ") == Endpoint{"node1", 1});
}

TEST_CASE("an invalid endpoint gives a reason") {
  for (const std::string text :
       {"node1:", "node1:65536", "node1:123456", "node1:-1", "node1:+1", "node1:port", "[::1]:"}) {
    CHECK_THAT(refusal(text), Contains("not a port"));
  }
  for (const std::string text : {"", " ", ":", ":29500", "[]:80", "[]"})
    CHECK_THAT(refusal(text), Contains("host is missing"));
  CHECK_THAT(refusal("[::1"), Contains("not closed"));
  CHECK_THAT(refusal("[::1]29500"), Contains("not a :PORT"));
  for (const std::string text : {"http://x:1", "a b", "a@b:1", "h\x1bst:1"})
    CHECK_THAT(refusal(text), Contains("is not a host name"));
  CHECK_THAT(refusal(std::string_view("a\0b:1", 5)), Contains("is not a host name"));
}

TEST_CASE("an IPv6 address with a port but without brackets is told how to be typed") {
  CHECK(parse_endpoint("::1:29705").error() ==
        "an IPv6 address with a port has brackets: [::1]:29705");
  CHECK(parse_endpoint("fe80::1%eth0:29400").error() ==
        "an IPv6 address with a port has brackets: [fe80::1%eth0]:29400");
  CHECK(parse_endpoint("2001:db8::2:29400").error() ==
        "an IPv6 address with a port has brackets: [2001:db8::2]:29400");
  CHECK(parse_endpoint("::1")->host == "::1");
  CHECK(parse_endpoint("::1:2970")->host == "::1:2970");
}

TEST_CASE("an endpoint is written as it is read") {
  for (const std::string text : {"127.0.0.1:40311", "[::1]:40311", "host:1", "host"})
    CHECK(to_string(endpoint(text)) == text);
}

TEST_CASE("only numeric loopback addresses count as loopback") {
  for (const char* host : {"127.0.0.1", "127.8.9.1", "::1"}) CHECK(is_loopback(host));
  for (const char* host : {"0.0.0.0", "::", "192.168.127.1"}) CHECK_FALSE(is_loopback(host));
  for (const char* host : {"localhost", "127.0.1.1"}) CHECK(leads_to_itself(host));
  CHECK_FALSE(leads_to_itself("node1"));
}
