// A rendezvous service in the process of one of its agents.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "rendezvous/client/own_service.hpp"
#include "rendezvous/service/service_server.hpp"

namespace ddprun::test {

/// The server is its agent's own, from so many looks on.
class ServerHere : public rdzv::OwnService {
 public:
  explicit ServerHere(rdzv::ServiceServer& server, int looks) : server_(server), left_(looks) {}
  void look(const std::vector<std::string>& addresses) override {
    CHECK(addresses == std::vector<std::string>{"127.0.0.1"});
    --left_;
  }
  [[nodiscard]] bool is_here() const override { return left_ <= 0; }
  Result<UniqueFd> connect() override { return server_.connect_locally(); }
  [[nodiscard]] std::string port_user() const override { return "nobody"; }
  [[nodiscard]] std::string why_elsewhere() const override { return ""; }
  [[nodiscard]] int left() const { return left_; }

 private:
  rdzv::ServiceServer& server_;
  int left_;
};

}  // namespace ddprun::test
