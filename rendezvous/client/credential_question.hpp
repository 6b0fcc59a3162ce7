// A question to Credentials that may be answered late, while an event loop goes on.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "proto/credentials.hpp"

namespace ddprun::rdzv {

class CredentialQuestion {
 public:
  using Text = proto::Credentials::Text;

  /// `ask` is called once, on a thread of its own, which may outlive this object.
  CredentialQuestion(std::shared_ptr<proto::Credentials> credentials,
                     std::function<Text(proto::Credentials&)> ask);

  /// Null: there is none yet after this time. Else it is valid as long as this object.
  const Text* answer_within(std::chrono::milliseconds limit);

 private:
  struct Answer;
  const std::shared_ptr<Answer> answer_;
};

}  // namespace ddprun::rdzv
