// Reads the secret in the credential that a rendezvous shows, once for each credential: that asks
// another process, and every new connection shows the same one.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "proto/credentials.hpp"

namespace ddprun::rdzv {

class CredentialReader {
 public:
  explicit CredentialReader(std::shared_ptr<proto::Credentials> credentials)
      : credentials_(std::move(credentials)) {}

  /// Whether it reads any.
  explicit operator bool() const { return credentials_ != nullptr; }

  /// Empty: `problem` says why.
  std::string secret_of(const std::string& credential) {
    if (credential == credential_ && problem_.empty()) return secret_;
    const auto payload = credentials_->decode(credential);
    credential_ = credential;
    secret_ = payload ? proto::secret_of_payload(*payload) : std::string();
    problem_.clear();
    if (!payload) {
      problem_ = payload.error();
    } else if (secret_.empty()) {
      problem_ = "its MUNGE credential is of another program";
    }
    return secret_;
  }

  /// Of the last credential, for people; empty: it could be read, or there was none.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  const std::shared_ptr<proto::Credentials> credentials_;
  std::string credential_;
  std::string secret_;
  std::string problem_;
};

}  // namespace ddprun::rdzv
