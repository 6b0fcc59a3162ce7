// A rendezvous service over loopback, and the lines that it prints.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/client/service_connection.hpp"
#include "rendezvous/service/service_server.hpp"

namespace ddprun::test {

/// Lines of a server, from its thread.
class ServerLines {
 public:
  void add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
  }
  [[nodiscard]] bool have(const std::string& part) const { return count(part) > 0; }
  [[nodiscard]] std::size_t count(const std::string& part) const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(std::count_if(
        lines_.begin(), lines_.end(),
        [&](const std::string& line) { return line.find(part) != std::string::npos; }));
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

struct ServedAgents {
  /// The settings' own on_warning is called, too.
  explicit ServedAgents(rdzv::ServiceServerSettings settings = {}, std::uint16_t port = 0) {
    settings.on_warning = [this, also = settings.on_warning](const std::string& line) {
      lines.add(line);
      if (also) also(line);
    };
    auto listener = rdzv::listen_store("127.0.0.1", port);
    REQUIRE(listener.has_value());
    auto started = rdzv::ServiceServer::start(std::move(*listener), std::move(settings));
    REQUIRE(started.has_value());
    server.emplace(std::move(*started));
  }
  [[nodiscard]] rdzv::ServicePlace place(std::string secret = "") const {
    rdzv::ServicePlace place;
    place.host = "127.0.0.1";
    place.port = server->port();
    place.run_id = "job";
    place.secret = std::move(secret);
    return place;
  }
  ServerLines lines;
  std::optional<rdzv::ServiceServer> server;
};

}  // namespace ddprun::test
