// rdzvd as a running program.
#pragma once

#include <signal.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/endpoint.hpp"
#include "rendezvous/client/store_client.hpp"
#include "tests/support/child.hpp"

namespace ddprun::test {

using Words = std::vector<std::string>;

inline rdzv::Clock::time_point soon() { return rdzv::Clock::now() + std::chrono::seconds(20); }

inline Words rdzvd_command(const Words& options) {
  Words words = {program("rdzvd")};
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

/// Its first line is already read.
struct Rdzvd {
  struct WholeCommand {};
  static constexpr WholeCommand whole_command{};
  explicit Rdzvd(const Words& options) : Rdzvd(rdzvd_command(options), whole_command) {}
  Rdzvd(const Words& command, WholeCommand) : child(command) {
    REQUIRE(child.wait_for_output("\n"));
    first_line = child.out().substr(0, child.out().find('\n'));
    const auto address = parse_endpoint(first_line);
    REQUIRE(address.has_value());
    host = address->host;
    port = address->port.value();
  }
  rdzv::StoreClient client() const {
    auto connected = rdzv::StoreClient::connect(host, port, soon());
    REQUIRE(connected.has_value());
    return std::move(*connected);
  }
  ChildResult stop(int signal = SIGTERM) {
    child.signal(signal);
    return child.wait();
  }

  Child child;
  std::string first_line;
  std::string host;
  std::uint16_t port = 0;
};

}  // namespace ddprun::test
