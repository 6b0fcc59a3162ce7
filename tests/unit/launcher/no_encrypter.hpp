// An encrypter that plans can have, and that encrypts nothing.
#pragma once

#include <memory>
#include <string>

#include "proto/encryption.hpp"

namespace ddprun::launcher::test {

class NoEncrypter final : public proto::Encrypter {
 public:
  [[nodiscard]] std::unique_ptr<proto::Encryption> client(const Client&) const override {
    return nullptr;
  }
  [[nodiscard]] std::unique_ptr<proto::Encryption> service(proto::SecretFor) const override {
    return nullptr;
  }
  [[nodiscard]] const std::string& why_no_service() const override { return nothing_; }
  [[nodiscard]] bool checks_clients() const override { return false; }
  [[nodiscard]] const std::string& description() const override { return description_; }

 private:
  std::string description_ = "TLS 1.3, of a test";
  std::string nothing_;
};

}  // namespace ddprun::launcher::test
