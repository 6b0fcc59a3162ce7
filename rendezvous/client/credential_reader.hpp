// Reads the secret in the credential that a rendezvous shows, once for each credential: that asks
// another process, and every new connection shows the same one.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "proto/credentials.hpp"
#include "rendezvous/client/credential_question.hpp"

namespace ddprun::rdzv {

class CredentialReader {
 public:
  /// `limit`: for so long the caller of `secret_of` may be kept.
  explicit CredentialReader(std::shared_ptr<proto::Credentials> credentials,
                            std::chrono::milliseconds limit = std::chrono::milliseconds(250));

  /// Whether it reads any.
  explicit operator bool() const { return credentials_ != nullptr; }

  /// Empty: `problem` tells why. Where the answer is late, a later call with the same credential
  /// gets it.
  std::string secret_of(const std::string& credential);

  /// Why the last credential could not be read; without a reason: it could be, or there was none.
  [[nodiscard]] const proto::CredentialFailure& problem() const { return problem_; }

 private:
  void take(const proto::Credentials::Text& payload);

  const std::shared_ptr<proto::Credentials> credentials_;
  const std::chrono::milliseconds limit_;
  std::optional<CredentialQuestion> question_;  // about asked_; none: it was answered
  std::string asked_;
  std::string credential_;  // that was read last
  std::string secret_;
  proto::CredentialFailure problem_;
};

}  // namespace ddprun::rdzv
