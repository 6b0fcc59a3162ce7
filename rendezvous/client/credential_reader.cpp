#include "rendezvous/client/credential_reader.hpp"

#include <utility>

namespace ddprun::rdzv {

using std::chrono::milliseconds;

CredentialReader::CredentialReader(std::shared_ptr<proto::Credentials> credentials,
                                   milliseconds limit)
    : credentials_(std::move(credentials)), limit_(limit) {}

std::string CredentialReader::secret_of(const std::string& credential) {
  if (credential == credential_ && problem_.reason.empty()) return secret_;
  // Questions that are not answered must not become ever more threads.
  const bool is_old = question_.has_value();
  if (is_old && asked_ != credential && question_->answer_within(milliseconds(0)) != nullptr)
    question_.reset();
  if (!question_) {
    asked_ = credential;
    question_.emplace(credentials_, [credential](proto::Credentials& credentials) {
      return credentials.decode(credential);
    });
  }
  const auto* payload = question_->answer_within(is_old ? milliseconds(0) : limit_);
  if (payload == nullptr) {
    problem_ = {"MUNGE has not answered yet", true};
    return "";
  }
  take(*payload);
  question_.reset();
  return secret_;
}

void CredentialReader::take(const proto::Credentials::Text& payload) {
  credential_ = asked_;
  secret_ = payload ? proto::secret_of_payload(*payload) : std::string();
  problem_ = payload ? proto::CredentialFailure{} : payload.error();
  if (payload && secret_.empty()) problem_.reason = "its MUNGE credential is of another program";
}

}  // namespace ddprun::rdzv
