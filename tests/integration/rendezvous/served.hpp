// A store on loopback for tests, and requests for it in words.
#pragma once

#include <catch2/catch.hpp>
#include <chrono>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/client/store_client.hpp"
#include "rendezvous/store/store_server.hpp"
#include "tests/support/c10d_requests.hpp"
#include "tests/support/hex.hpp"

namespace ddprun::test {

inline const std::string kHello = from_hex("00cef7853c");
inline const std::string kStop(1, '\0');

inline rdzv::Clock::time_point soon() { return rdzv::Clock::now() + std::chrono::seconds(20); }

inline rdzv::StoreListener listener(const std::string& host = "127.0.0.1") {
  auto made = rdzv::listen_store(host, 0);
  REQUIRE(made.has_value());
  return std::move(*made);
}

/// A server that keeps its warnings instead of logging them.
struct Served {
  explicit Served(rdzv::StoreSettings settings = {}, const std::string& host = "127.0.0.1")
      : server(rdzv::StoreServer::start(listener(host), with_log(std::move(settings))).value()) {}

  rdzv::StoreSettings with_log(rdzv::StoreSettings settings) {
    settings.on_warning = [this](const std::string& line) {
      const std::lock_guard lock(mutex);
      lines.push_back(line);
    };
    return settings;
  }
  rdzv::StoreClient client() {
    auto connected = rdzv::StoreClient::connect(server.addr(), server.port(), soon());
    REQUIRE(connected.has_value());
    return std::move(*connected);
  }
  std::vector<std::string> warnings() {
    const std::lock_guard lock(mutex);
    return lines;
  }

  std::mutex mutex;
  std::vector<std::string> lines;
  rdzv::StoreServer server;
};

template <class Write>
std::string request(Write&& write) {
  std::string bytes;
  test::TorchRequestWriter writer(bytes);
  write(writer);
  return bytes;
}

}  // namespace ddprun::test
